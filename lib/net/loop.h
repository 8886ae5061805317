#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>  // Boost 1.74's awaitable.hpp needs std::exchange and does not say so

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "lib/base/clock.h"
#include "lib/base/unique_fd.h"

/// What programs that talk to networks wait with. Asio is seen by lib/net alone; all others use these names.
namespace triton::net {

/// One thread runs it; every function of this library is called in that thread.
using Loop = boost::asio::io_context;

/// A coroutine that runs in a Loop.
template <class T = void>
using Task = boost::asio::awaitable<T>;

/// Begins a task that nothing waits for. An exception that leaves it is dropped, so it must be caught in there.
void spawn(Loop& loop, Task<> task);

/// Calls it in the loop, later; from any thread.
void post(Loop& loop, std::function<void()> call);

/// Lets everything run that is ready now.
Task<> yield(Loop& loop);

/// Returns after that time.
Task<> sleep_for(Loop& loop, Duration time);

/// A descriptor that tasks wait for; closed with this.
class Descriptor {
public:
    Descriptor(Loop& loop, UniqueFd fd);

    /// Returns whether it is open and there may be something to read, or its end.
    Task<bool> wait_readable();
    /// The same for a caller that is no task: `call` is called once, later, with what wait_readable() returns. The
    /// descriptor must live until then.
    void call_when_readable(std::function<void(bool)> call);
    /// Waiters learn that nothing more will come.
    void close();
    [[nodiscard]] bool is_open() const { return descriptor_.is_open(); }
    /// Borrowed.
    [[nodiscard]] int fd() { return descriptor_.native_handle(); }

private:
    boost::asio::posix::stream_descriptor descriptor_;
};

/// One call at one time.
class Timer {
public:
    explicit Timer(Loop& loop);
    ~Timer();
    Timer(Timer const&) = delete;
    Timer& operator=(Timer const&) = delete;

    /// In place of the call that was set before. `call` may set the next one, and may destroy the timer.
    void call_at(TimePoint when, std::function<void()> call);
    void cancel();
    /// When the call is due; TimePoint::max(): none is.
    [[nodiscard]] TimePoint due() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// Where tasks wait for other tasks. It must outlive those that wait.
class Condition {
public:
    explicit Condition(Loop& loop) : timer_(loop, TimePoint::max()) {}

    /// Until the next notify_all().
    Task<> wait();
    void notify_all() { timer_.cancel(); }

private:
    boost::asio::steady_timer timer_;
};

/// Calls for each of these signals, as long as it lives.
class Signals {
public:
    Signals(Loop& loop, std::initializer_list<int> signals, std::function<void(int)> call);
    ~Signals();
    Signals(Signals const&) = delete;
    Signals& operator=(Signals const&) = delete;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace triton::net
