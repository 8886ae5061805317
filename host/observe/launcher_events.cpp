#include "host/observe/launcher_events.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/socket.h>

#include "lib/base/clock.h"

namespace triton::observe {

namespace {

constexpr int most_event_reads = 4;  // of one connection in a row: the launcher decides how much it sends

}  // namespace

struct LauncherEvents::State {
    struct Line {
        LauncherAddress address;
        TimePoint since;
        std::shared_ptr<net::Descriptor> connection;  // null: it has ended
        TimePoint not_before;
    };

    net::Loop& loop;
    Settings settings;
    Notices notices;
    std::map<std::string, Line> lines;
    std::uint64_t count = 0;
    bool is_ended = false;

    /// Returns whether the connection is still open.
    static bool drain(int fd) {
        std::array<char, 16384> buffer;
        for (int i = 0; i < most_event_reads; ++i) {
            ssize_t const got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
            if (got == 0) return false;
            if (got < 0) return errno == EAGAIN || errno == EINTR;
        }
        return true;
    }

    static net::Task<> listen(std::shared_ptr<State> self, std::string machine,
                              std::shared_ptr<net::Descriptor> connection) {
        while (co_await connection->wait_readable()) {
            bool const is_open = drain(connection->fd());
            if (self->is_ended) co_return;
            if (!is_open) co_return self->has_ended(machine, connection);
            ++self->count;
            self->notices.heard(machine);
            co_await net::sleep_for(self->loop, self->settings.pause);
            if (self->is_ended || !connection->is_open()) co_return;
        }
    }

    void has_ended(std::string const& machine, std::shared_ptr<net::Descriptor> const& connection) {
        auto const found = lines.find(machine);
        if (found == lines.end() || found->second.connection != connection) return;
        Line& line = found->second;
        line.connection->close();
        line.connection.reset();
        bool const was_short = steady_now() < line.since + settings.short_life;
        line.not_before = steady_now() + (was_short ? settings.retry : Duration());
        notices.ended(machine);
    }
};

LauncherEvents::LauncherEvents(net::Loop& loop, Settings settings, Notices notices)
    : state_(std::make_shared<State>(State{loop, settings, std::move(notices), {}, 0, false})) {}

LauncherEvents::~LauncherEvents() {
    state_->is_ended = true;
    for (auto& [machine, line] : state_->lines)
        if (line.connection) line.connection->close();
}

bool LauncherEvents::is_wanted(std::string const& machine, LauncherAddress const& address) const {
    auto const found = state_->lines.find(machine);
    if (found == state_->lines.end() || found->second.address != address) return true;
    return !found->second.connection && steady_now() >= found->second.not_before;
}

void LauncherEvents::follow(std::string const& machine, LauncherAddress const& address, UniqueFd connection) {
    forget(machine);
    auto readable = std::make_shared<net::Descriptor>(state_->loop, std::move(connection));
    state_->lines[machine] = {address, steady_now(), readable, {}};
    net::spawn(state_->loop, State::listen(state_, machine, readable));
}

void LauncherEvents::forget(std::string const& machine) {
    auto const found = state_->lines.find(machine);
    if (found == state_->lines.end()) return;
    if (found->second.connection) found->second.connection->close();
    state_->lines.erase(found);
}

std::size_t LauncherEvents::connections() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(state_->lines, [](auto const& line) { return line.second.connection != nullptr; }));
}
std::uint64_t LauncherEvents::notifications() const { return state_->count; }

}  // namespace triton::observe
