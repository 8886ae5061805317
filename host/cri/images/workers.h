#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/result.h"

namespace triton::cri {

/// A few threads for work that blocks. No signal is delivered to them.
class Workers {
public:
    explicit Workers(std::size_t most) : most_(most) {}
    /// Waits for the pieces in progress; those that have not begun are dropped.
    ~Workers();
    Workers(Workers const&) = delete;
    Workers& operator=(Workers const&) = delete;

    /// Queues a piece, and starts a thread for it when none is free and there may be more. `work` must not throw.
    /// Errors: those of starting the first thread.
    Result<> run(std::function<void()> work);

private:
    Result<> start_one();
    void go();

    std::size_t most_;
    std::mutex mutex_;
    std::condition_variable has_changed_;
    std::deque<std::function<void()>> queue_;
    std::size_t free_ = 0;
    bool is_stopping_ = false;
    std::vector<std::thread> threads_;  // only of the thread that calls run()
};

}  // namespace triton::cri
