#include "host/machine/init.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

namespace triton::machine {
namespace {

namespace fs = std::filesystem;

class InitTest : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "/init.XXXXXX";
        directory_ = ::mkdtemp(pattern.data());
        root_ = directory_ / "root";
        fs::create_directories(root_ / "sbin");
        fs::create_directories(root_ / "bin");
    }
    void TearDown() override { fs::remove_all(directory_); }

    void file(std::string const& path) const {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << "x";
    }
    void link(std::string const& text, std::string const& path) const { fs::create_symlink(text, root_ / path); }
    [[nodiscard]] std::optional<Init> found(Machine const& machine = {}) const {
        return init_of(machine, root_.string()).value();
    }

    static constexpr Init of_systemd{.kill_signal = 37, .has_container_interface = true};
    static constexpr Init of_busybox{.kill_signal = SIGUSR2};

    fs::path directory_;
    fs::path root_;
};

TEST_F(InitTest, IsTheOneThatNspawnWouldBoot) {
    EXPECT_EQ(found(), std::nullopt);
    file("bin/busybox");
    link("/bin/busybox", "sbin/init");  // absolute: inside of the machine
    EXPECT_EQ(found(), of_busybox);
    file("lib/systemd/systemd");
    EXPECT_EQ(found(), of_systemd);
}

/// Its root makes the links, and must not keep the host from changing the machine.
TEST_F(InitTest, IsNotWhereALinkLeadsToNothingThatCanBe) {
    link(std::string(300, 'a'), "sbin/init");
    EXPECT_EQ(found(), std::nullopt);
    fs::create_directories(root_ / "usr/lib/systemd");
    link(std::string(300, 'a'), "usr/lib/systemd/systemd");
    fs::remove(root_ / "sbin/init");
    file("sbin/init");
    EXPECT_EQ(found(), Init{});
}

TEST_F(InitTest, IsKnownByTheNameBehindItsLinks) {
    file("usr/bin/triton-launch");
    link("../usr/bin/triton-launch", "sbin/second");
    link("second", "sbin/init");
    EXPECT_EQ(found(), of_systemd);
    fs::remove(root_ / "sbin/init");
    file("sbin/init");
    EXPECT_EQ(found(), Init{});
    EXPECT_EQ(Init{}.kill_signal, SIGTERM);
}

TEST_F(InitTest, OfAMachineThatNamesItIsThatOne) {
    file("lib/systemd/systemd");
    file("bin/busybox");
    Machine machine;
    machine.init_name = "/bin/busybox";
    EXPECT_EQ(found(machine), of_busybox);
    machine.init_name = "/bin/nothing";
    EXPECT_EQ(found(machine), std::nullopt);
    machine.launch = json::Object{};
    EXPECT_TRUE(found(machine)->has_container_interface);
    EXPECT_EQ(found(machine)->kill_signal, SIGTERM);
}

TEST_F(InitTest, IsNeverOneOfTheHost) {
    std::ofstream(directory_ / "systemd") << "x";
    link("../../systemd", "sbin/init");
    EXPECT_EQ(found(), std::nullopt) << "the root is where .. ends";
    fs::remove(root_ / "sbin/init");
    link("init", "sbin/init");
    EXPECT_EQ(found(), std::nullopt) << "it leads to itself";
    fs::remove(root_ / "sbin/init");
    ASSERT_EQ(::mkfifo((root_ / "sbin/init").c_str(), 0600), 0);
    EXPECT_EQ(found(), std::nullopt) << "it is not waited for";
    fs::create_directories(root_ / "lib/systemd/systemd");
    EXPECT_EQ(found(), std::nullopt) << "it is a directory";
}

}  // namespace
}  // namespace triton::machine
