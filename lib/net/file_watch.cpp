#include "lib/net/file_watch.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lib/base/clock.h"
#include "lib/base/path_watcher.h"

namespace triton::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr Duration quiet = std::chrono::milliseconds(100);
constexpr int most_quiet_waits = 20;  // a writer who never stops is not waited for

std::string parent_of(std::string const& path) {
    std::size_t const slash = path.rfind('/');
    if (slash == path.npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::vector<std::string> deciding_directories(std::vector<std::string> const& paths) {
    std::vector<std::string> found = PathWatcher::deciding_directories(paths);
    std::erase(found, "/");
    return found;
}

std::vector<std::string> readable_for(std::vector<std::string> const& paths) {
    std::vector<std::string> found = deciding_directories(paths);
    for (std::string const& path : paths) {
        std::array<char, PATH_MAX> target{};
        if (!::realpath(path.c_str(), target.data())) continue;
        found.push_back(parent_of(parent_of(target.data())));
        found.emplace_back(target.data());
    }
    std::ranges::sort(found);
    auto const [first, last] = std::ranges::unique(found);
    found.erase(first, last);
    std::erase(found, "/");
    return found;
}

struct FileWatch::State {
    State(asio::io_context& io, PathWatcher watched, std::vector<std::string> followed, std::function<void()> call)
        : watcher(std::move(watched)),
          inotify(io, watcher.fd()),
          timer(io),
          paths(std::move(followed)),
          changed(std::move(call)) {}
    State(State const&) = delete;
    State& operator=(State const&) = delete;
    ~State() { end(); }

    PathWatcher watcher;
    asio::posix::stream_descriptor inotify;  // the watcher's
    asio::steady_timer timer;
    std::vector<std::string> paths;
    std::function<void()> changed;
    Result<> outcome;

    void end() {
        if (inotify.is_open()) (void)inotify.release();
        timer.cancel();
    }

    static asio::awaitable<void> run(std::shared_ptr<State> self) {
        for (;;) {
            error_code failed;
            // The watch is edge-triggered: it does not report again events that were left unread.
            if (self->watcher.has_events()) {
                co_await asio::post(asio::use_awaitable);  // others have their turn first
            } else {
                co_await self->inotify.async_wait(asio::posix::stream_descriptor::wait_read,
                                                  asio::redirect_error(asio::use_awaitable, failed));
            }
            if (failed || !self->inotify.is_open()) co_return;
            if (!self->watcher.take_events()) continue;
            for (int i = 0; i < most_quiet_waits; ++i) {
                self->timer.expires_after(quiet);
                co_await self->timer.async_wait(asio::redirect_error(asio::use_awaitable, failed));
                if (failed) co_return;
                // Watched anew each time, because the paths may now lead to files that are not watched yet.
                (void)self->watcher.watch(self->paths);  // what cannot be watched is read when asked for
                if (!self->watcher.take_events()) break;
            }
            self->changed();
        }
    }
};

Result<std::unique_ptr<FileWatch>> FileWatch::create(asio::io_context& io, std::vector<std::string> paths,
                                                     std::function<void()> changed) {
    PathWatcher watcher = TRY(PathWatcher::create());
    Result<> const watched = watcher.watch(paths);
    if (!watched && watched.error().kind != ErrorKind::unsupported) return std::unexpected(watched.error());
    auto state = std::make_shared<State>(io, std::move(watcher), std::move(paths), std::move(changed));
    state->outcome = watched;
    asio::co_spawn(io, State::run(state), asio::detached);
    return std::unique_ptr<FileWatch>(new FileWatch(std::move(state)));
}

FileWatch::FileWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<> const& FileWatch::outcome() const { return state_->outcome; }

FileWatch::~FileWatch() { state_->end(); }

}  // namespace triton::net
