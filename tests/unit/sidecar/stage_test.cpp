#include "sidecar/stage.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::sidecar {
namespace {

using ::testing::ElementsAre;
namespace fs = std::filesystem;

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

class Staging : public testing::Test {
protected:
    Staging() {
        std::string name = "/tmp/stage.XXXXXX";
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        root = name;
        fs::create_directory(root / "in");
        options.input_directory = root / "in";
        options.output_directory = root / "out";
        around.log = [this](StageLevel level, std::string_view event, std::string_view message) {
            log.push_back((level == StageLevel::error ? "error " : "info ") + std::string(event) + ": " +
                          std::string(message));
        };
    }
    /// The mode that stays ignores its children's ends, which other tests wait for.
    ~Staging() override {
        (void)::signal(SIGCHLD, SIG_DFL);
        fs::remove_all(root);
    }

    void put(std::string const& name, std::string_view text) { std::ofstream(root / "in" / name) << text; }

    SignalMask const mask;
    fs::path root;
    StageOptions options;
    StageSurroundings around;
    std::vector<std::string> log;
};

TEST_F(Staging, WhatKeepsItFromBeginningIsLogged) {
    options.mode = StageMode::sidecar;
    options.watch = true;
    EXPECT_EQ(stage(options, around), 1);
    EXPECT_THAT(log, ElementsAre("error staging-failed: --watch: this system cannot watch files"));
}

TEST_F(Staging, AFileThatIsEmptiedMeanwhileIsNotStaged) {
    put("large", "");
    fs::resize_file(root / "in/large", 65 << 20);  // takes no room
    put("wanted", "text");
    options.files = {"large", "wanted"};
    options.require_not_empty = {"wanted"};
    around.progress = [this](std::string_view) { put("wanted", ""); };
    EXPECT_EQ(stage(options, around), 1);
    EXPECT_EQ(log.back(),
              "error staging-failed: " + options.input_directory + "/wanted is empty (--require-not-empty)");
    EXPECT_FALSE(fs::exists(root / "out/wanted"));
    EXPECT_EQ(std::distance(fs::directory_iterator(root / "out"), {}), 1) << "nothing else is left there";
}

TEST_F(Staging, AFirstRoundThatWasStoppedHasStagedNothing) {
    put("file", "text");
    options.mode = StageMode::sidecar;
    options.files = {"file"};
    options.main_container_version = "7.1.61";
    options.version_file = root / "in/version";
    put("version", "7.3.63\n");
    bool is_staged = false;
    around.staged = [&is_staged] { is_staged = true; };
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    (void)::sigprocmask(SIG_BLOCK, &stop, nullptr);
    (void)::raise(SIGTERM);  // taken by stage()
    EXPECT_EQ(stage(options, around), 0);
    EXPECT_FALSE(is_staged);
    EXPECT_THAT(log, ElementsAre("info stop-requested: stopped by signal 15"));
}

}  // namespace
}  // namespace triton::sidecar
