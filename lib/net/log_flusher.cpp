#include "lib/net/log_flusher.h"

#include <cerrno>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <sys/epoll.h>

#include "lib/base/unique_fd.h"

namespace triton::net {

namespace asio = boost::asio;

struct LogFlusher::State {
    State(Loop& loop, int epoll, log::Log& of) : descriptor(loop, epoll), log(of) {}
    asio::posix::stream_descriptor descriptor;
    log::Log& log;
    bool is_waiting = false;

    static void wait(std::shared_ptr<State> const& self) {
        if (std::exchange(self->is_waiting, true)) return;
        epoll_event event{};
        event.events = EPOLLOUT | EPOLLONESHOT;
        int const epoll = self->descriptor.native_handle();
        int const console = self->log.console();
        // A console that cannot be watched is a file, and takes everything at once.
        if (::epoll_ctl(epoll, EPOLL_CTL_MOD, console, &event) != 0 &&
            ::epoll_ctl(epoll, EPOLL_CTL_ADD, console, &event) != 0) {
            self->is_waiting = false;
            return;
        }
        self->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                    [weak = std::weak_ptr(self)](boost::system::error_code failed) {
                                        auto const state = weak.lock();
                                        if (failed || !state) return;
                                        state->is_waiting = false;
                                        state->log.flush();
                                        if (state->log.is_blocked()) wait(state);
                                    });
    }
};

Result<LogFlusher> LogFlusher::create(Loop& loop, log::Log& log) {
    UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
    int const err = errno;
    if (!epoll) return fail(err, "watch the log's reader");
    auto state = std::make_shared<State>(loop, epoll.release(), log);
    log.write_at_once([weak = std::weak_ptr(state)] {
        if (auto const self = weak.lock()) State::wait(self);
    });
    return LogFlusher(std::move(state));
}

}  // namespace triton::net
