#include "host/cri/images/workers.h"

#include <csignal>
#include <utility>

#include "lib/base/start_thread.h"

namespace triton::cri {

Workers::~Workers() {
    {
        std::scoped_lock const lock(mutex_);
        is_stopping_ = true;
        queue_.clear();
    }
    has_changed_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

Result<> Workers::run(std::function<void()> work) {
    bool needs_thread = false;
    {
        std::scoped_lock const lock(mutex_);
        queue_.push_back(std::move(work));
        needs_thread = queue_.size() > free_ && threads_.size() < most_;
    }
    has_changed_.notify_one();
    if (!needs_thread) return {};
    auto started = start_one();
    if (started || !threads_.empty()) return {};
    std::scoped_lock const lock(mutex_);
    queue_.pop_back();
    return started;
}

Result<> Workers::start_one() {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    auto thread = start_thread([this] { go(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!thread) return std::unexpected(thread.error());
    threads_.push_back(*std::move(thread));
    return {};
}

void Workers::go() {
    std::unique_lock lock(mutex_);
    for (;;) {
        ++free_;
        has_changed_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
        --free_;
        if (is_stopping_) return;
        auto const work = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        work();
        lock.lock();
    }
}

}  // namespace triton::cri
