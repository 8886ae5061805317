#include "host/observe/worker.h"

#include <utility>

namespace triton::observe {

SignalsBlocked::SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Worker::Worker() {
    SignalsBlocked const blocked;
    thread_ = std::thread([this] { go(); });
}

Worker::~Worker() {
    {
        std::scoped_lock const lock(mutex_);
        is_stopping_ = true;
        queue_.clear();
    }
    has_changed_.notify_one();
    thread_.join();
}

void Worker::run(std::function<void()> work) {
    {
        std::scoped_lock const lock(mutex_);
        if (is_stopping_) return;
        queue_.push_back(std::move(work));
    }
    has_changed_.notify_one();
}

void Worker::go() {
    for (;;) {
        std::function<void()> work;
        {
            std::unique_lock lock(mutex_);
            has_changed_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
            if (is_stopping_) return;
            work = std::move(queue_.front());
            queue_.pop_front();
        }
        work();
    }
}

}  // namespace triton::observe
