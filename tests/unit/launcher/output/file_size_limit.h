#pragma once

#include <csignal>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace triton::launcher {

/// Lets files grow to so many bytes only, as long as this lives. The signal that comes with it must be blocked.
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t bytes) {
        ::sigemptyset(&xfsz_);
        ::sigaddset(&xfsz_, SIGXFSZ);
        (void)::sigprocmask(SIG_BLOCK, &xfsz_, &before_);
        EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &limit_), 0);
        rlimit const limit{bytes, limit_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    }
    ~FileSizeLimit() {
        (void)::setrlimit(RLIMIT_FSIZE, &limit_);
        (void)::sigprocmask(SIG_SETMASK, &before_, nullptr);
    }

private:
    sigset_t xfsz_{};
    sigset_t before_{};
    rlimit limit_{};
};

}  // namespace triton::launcher
