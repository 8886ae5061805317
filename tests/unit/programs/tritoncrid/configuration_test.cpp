#include "programs/tritoncrid/configuration.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/tritoncrid/options.h"

namespace {

using namespace triton;
using namespace triton::program;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(CriConfiguration, HasDefaults) {
    auto const empty = parse_cri_configuration(R"({"storage": {"backend": "auto"}, "info": {"listen": null}})", "x");
    ASSERT_TRUE(empty);
    EXPECT_EQ(*empty, CriConfiguration{});
    EXPECT_EQ(read_cri_configuration("/nonexistent"), CriConfiguration{});
}

TEST(CriConfiguration, ReadsItsKeys) {
    auto const read = parse_cri_configuration(
        R"({"cri": {"socket_group": "kube", "cgroup_driver": "cgroupfs", "network_directory": "/srv/cni", "parallel_pulls": 2,
            "plugin_directories": "/a:/b", "plugin_timeout": "5s", "registry_directory": "/c", "runtime": "runc",
            "stray_interval": "2h"}})",
        "x");
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, (CriConfiguration{.socket_group = "kube",
                                       .cgroup_driver = CgroupDriver::cgroupfs,
                                       .network_directory = "/srv/cni",
                                       .plugin_directories = "/a:/b",
                                       .plugin_timeout = milliseconds{5000},
                                       .parallel_pulls = 2,
                                       .registry_directory = "/c",
                                       .runtime = "runc",
                                       .stray_interval = std::chrono::hours(2)}));
}

TEST(CriConfiguration, NamesWhatIsWrong) {
    auto const read = parse_cri_configuration(
        R"({"cri": {"cgroup_driver": "docker", "network_directory": "x", "parallel_pulls": 0, "sokket_group": "a"}})",
        "/etc/x.json");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().text(), "/etc/x.json is not a configuration");
    EXPECT_THAT(read.error().details,
                ElementsAre(StartsWith("cri.cgroup_driver: "), StartsWith("cri.network_directory: "),
                            StartsWith("cri.parallel_pulls: "), HasSubstr("sokket_group")));
}

TEST(CriOptions, AreRead) {
    std::array<char const*, 4> const words{"--listen", "/x", "--log-level", "debug"};
    char const* const environment[] = {"TRITONCRID_ROOT=/srv/", nullptr};
    auto const options = parse_cri_options(words, environment);
    ASSERT_TRUE(options) << options.error().text();
    EXPECT_EQ(options->listen, "/x");
    EXPECT_EQ(options->root, "/srv");
    EXPECT_EQ(options->log_level, log::LogLevel::debug);
    std::array<char const*, 1> const help{"--help"};
    EXPECT_THAT(parse_cri_options(help, environment)->text, HasSubstr("Examples:"));
    std::array<char const*, 1> const extra{"pull"};
    EXPECT_EQ(parse_cri_options(extra, environment).error().text(), "unexpected argument \"pull\"");
}

}  // namespace
