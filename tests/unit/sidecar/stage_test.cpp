#include "sidecar/stage.h"

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::sidecar {
namespace {

using ::testing::ElementsAre;

/// Keeps the signals that staging blocks from staying so.
class SignalMask {
public:
    SignalMask() { (void)::sigprocmask(SIG_BLOCK, nullptr, &before_); }
    ~SignalMask() { (void)::sigprocmask(SIG_SETMASK, &before_, nullptr); }
    SignalMask(SignalMask const&) = delete;
    SignalMask& operator=(SignalMask const&) = delete;

private:
    sigset_t before_{};
};

TEST(Staging, WhatKeepsItFromBeginningIsLogged) {
    SignalMask const mask;
    StageOptions options;
    options.mode = StageMode::sidecar;
    options.watch = true;
    std::vector<std::string> log;
    StageSurroundings around;
    around.log = [&log](StageLevel level, std::string_view event, std::string_view message) {
        log.push_back((level == StageLevel::error ? "error " : "info ") + std::string(event) + ": " +
                      std::string(message));
    };
    EXPECT_EQ(stage(options, around), 1);
    EXPECT_THAT(log, ElementsAre("error staging-failed: --watch: this system cannot watch files"));
}

}  // namespace
}  // namespace triton::sidecar
