#include "lib/net/loop.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace triton::net {

namespace asio = boost::asio;
using boost::system::error_code;

void spawn(Loop& loop, Task<> task) { asio::co_spawn(loop, std::move(task), asio::detached); }

void post(Loop& loop, std::function<void()> call) { asio::post(loop, std::move(call)); }

Task<> yield(Loop& loop) { co_await asio::post(loop, asio::use_awaitable); }

Task<> sleep_for(Loop& loop, Duration time) {
    asio::steady_timer timer(loop, time);
    error_code cancelled;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

Descriptor::Descriptor(Loop& loop, UniqueFd fd) : descriptor_(loop) {
    if (fd) descriptor_.assign(fd.release());
}

Task<bool> Descriptor::wait_readable() {
    error_code failed;
    co_await descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                                    asio::redirect_error(asio::use_awaitable, failed));
    co_return !failed && descriptor_.is_open();
}

void Descriptor::call_when_readable(std::function<void(bool)> call) {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [call = std::move(call)](error_code failed) { call(!failed); });
}

void Descriptor::close() {
    error_code ignored;
    (void)descriptor_.close(ignored);
}

struct Timer::State {
    explicit State(Loop& loop) : timer(loop, TimePoint::max()) {}
    asio::steady_timer timer;
    std::uint64_t set = 0;  // how often it was set: a replaced call may be on its way already
};

Timer::Timer(Loop& loop) : state_(std::make_shared<State>(loop)) {}

Timer::~Timer() { cancel(); }

void Timer::call_at(TimePoint when, std::function<void()> call) {
    std::uint64_t const number = ++state_->set;
    state_->timer.expires_at(when);
    state_->timer.async_wait([weak = std::weak_ptr(state_), number, call = std::move(call)](error_code cancelled) {
        auto const self = weak.lock();
        if (cancelled || !self || self->set != number) return;
        self->timer.expires_at(TimePoint::max());
        call();
    });
}

void Timer::cancel() {
    ++state_->set;
    state_->timer.expires_at(TimePoint::max());
}

TimePoint Timer::due() const { return state_->timer.expiry(); }

Task<> Condition::wait() {
    error_code cancelled;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

struct Signals::State : std::enable_shared_from_this<State> {
    State(Loop& loop, std::function<void(int)> to) : signals(loop), call(std::move(to)) {}
    asio::signal_set signals;
    std::function<void(int)> call;

    void wait() {
        signals.async_wait([self = shared_from_this()](error_code failed, int signo) {
            if (failed) return;
            self->call(signo);
            self->wait();
        });
    }
};

Signals::Signals(Loop& loop, std::initializer_list<int> signals, std::function<void(int)> call)
    : state_(std::make_shared<State>(loop, std::move(call))) {
    for (int const signo : signals)
        state_->signals.add(signo);
    state_->wait();
}

Signals::~Signals() {
    error_code ignored;
    state_->signals.cancel(ignored);
}

}  // namespace triton::net
