#include "sidecar/agent/file_watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/inotify.h>

#include "base/clock.h"

namespace triton::sidecar {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr Duration quiet = std::chrono::milliseconds(100);
constexpr int most_quiet_waits = 20;  // somebody who writes all the time is not waited for

std::string parent_of(std::string const& path) {
    std::size_t const slash = path.rfind('/');
    if (slash == path.npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::vector<std::string> directories_of(std::vector<std::string> const& paths) {
    std::vector<std::string> found;
    auto const add = [&found](std::string directory) {
        if (std::ranges::find(found, directory) == found.end()) found.push_back(std::move(directory));
    };
    for (std::string const& path : paths) {
        add(parent_of(path));
        std::array<char, PATH_MAX> target{};
        if (::realpath(path.c_str(), target.data())) add(parent_of(target.data()));
    }
    return found;
}

struct FileWatch::State {
    State(asio::io_context& io, int fd, std::vector<std::string> watched, std::function<void()> call)
        : inotify(io, fd), timer(io), paths(std::move(watched)), changed(std::move(call)) {}

    asio::posix::stream_descriptor inotify;
    asio::steady_timer timer;
    std::vector<std::string> paths;
    std::function<void()> changed;

    /// Watching a directory again changes nothing; one that is not there is noticed by what lies above it, or not.
    void watch() {
        for (std::string const& directory : directories_of(paths)) {
            (void)::inotify_add_watch(inotify.native_handle(), directory.c_str(),
                                      IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ATTRIB);
        }
    }

    static asio::awaitable<void> run(std::shared_ptr<State> self) {
        alignas(inotify_event) std::array<char, 4096> events;
        for (;;) {
            error_code failed;
            co_await self->inotify.async_read_some(asio::buffer(events),
                                                   asio::redirect_error(asio::use_awaitable, failed));
            if (failed) co_return;
            for (int i = 0; i < most_quiet_waits; ++i) {
                self->timer.expires_after(quiet);
                co_await self->timer.async_wait(asio::redirect_error(asio::use_awaitable, failed));
                if (failed) co_return;
                self->inotify.non_blocking(true, failed);
                if (self->inotify.read_some(asio::buffer(events), failed) == 0) break;
            }
            self->watch();  // before reading, so that what changes meanwhile is not missed
            self->changed();
        }
    }
};

Result<std::unique_ptr<FileWatch>> FileWatch::create(asio::io_context& io, std::vector<std::string> paths,
                                                     std::function<void()> changed) {
    int const fd = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0) return fail(errno, "watch for new certificates");
    auto state = std::make_shared<State>(io, fd, std::move(paths), std::move(changed));
    state->watch();
    asio::co_spawn(io, State::run(state), asio::detached);
    return std::unique_ptr<FileWatch>(new FileWatch(std::move(state)));
}

FileWatch::FileWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

FileWatch::~FileWatch() {
    error_code ignored;
    state_->inotify.close(ignored);
    state_->timer.cancel();
}

}  // namespace triton::sidecar
