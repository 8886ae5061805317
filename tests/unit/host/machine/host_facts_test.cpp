#include "host/machine/host_facts.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace triton::machine {
namespace {

namespace fs = std::filesystem;

class HostFactsTest : public testing::Test {
protected:
    HostFactsTest() {
        std::string pattern = (fs::temp_directory_path() / "facts-XXXXXX").string();
        root_ = ::mkdtemp(pattern.data());
    }
    ~HostFactsTest() override { fs::remove_all(root_); }

    HostFacts of(std::string const& product, std::string const& release) {
        write("sys/class/dmi/id/product_uuid", product);
        write("etc/os-release", release);
        return read_host_facts(root_.string());
    }
    [[nodiscard]] fs::path const& root() const { return root_; }

private:
    void write(std::string const& name, std::string const& text) {
        fs::create_directories((root_ / name).parent_path());
        std::ofstream(root_ / name) << text;
    }
    fs::path root_;
};

TEST_F(HostFactsTest, AreThoseOfTheFirmwareAndTheSystem) {
    EXPECT_EQ(read_host_facts(root().string()), HostFacts{});
    HostFacts const expected{*Uuid::parse("44454c4c-4a00-1038-8052-b4c04f313233"), "20240101T000000Z"};
    EXPECT_EQ(of("44454C4C-4A00-1038-8052-B4C04F313233\n", "ID=debian\nTRITON_RELEASE=20240101T000000Z\n"), expected);
    EXPECT_EQ(of("44454c4c-4a00-1038-8052-b4c04f313233", "TRITON_RELEASE=\"20240101T000000Z\""), expected);
}

TEST_F(HostFactsTest, WhatIsNotWhatItShouldBeIsNotSet) {
    EXPECT_EQ(of("Not Settable\n", "XTRITON_RELEASE=1\nTRITON_RELEASES=2\n"), HostFacts{});
    EXPECT_EQ(of("", "TRITON_RELEASE=\n"), HostFacts{});
    EXPECT_EQ(of("", "TRITON_RELEASE=a\x1b[2J\n"), HostFacts{});
    EXPECT_EQ(of("", "TRITON_RELEASE=" + std::string(256, 'a')), HostFacts{});
}

}  // namespace
}  // namespace triton::machine
