#pragma once

#include <condition_variable>
#include <csignal>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace triton::observe {

/// A thread for work that blocks: it does one piece after the other. No signal is delivered to it.
class Worker {
public:
    Worker();
    /// Waits for the piece in progress; pieces that have not begun are dropped.
    ~Worker();
    Worker(Worker const&) = delete;
    Worker& operator=(Worker const&) = delete;

    /// `work` must not throw. May be called from any thread.
    void run(std::function<void()> work);

private:
    void go();

    std::mutex mutex_;
    std::condition_variable has_changed_;
    std::deque<std::function<void()>> queue_;
    bool is_stopping_ = false;
    std::thread thread_;
};

/// While it exists, threads that this thread starts have all signals blocked.
class SignalsBlocked {
public:
    SignalsBlocked();
    ~SignalsBlocked();
    SignalsBlocked(SignalsBlocked const&) = delete;
    SignalsBlocked& operator=(SignalsBlocked const&) = delete;

private:
    sigset_t before_;
};

}  // namespace triton::observe
