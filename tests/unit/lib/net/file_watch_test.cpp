#include "lib/net/file_watch.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace triton::net {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

TEST(FileWatch, WhatDecidesIsNeverAllOfIt) {
    EXPECT_THAT(deciding_directories({"/no-such-environment"}), ElementsAre());
    EXPECT_THAT(readable_for({"/no-such-environment"}), ElementsAre());
    EXPECT_THAT(readable_for({"/proc"}), ElementsAre("/proc"));
}

TEST(FileWatch, ALinkIsDecidedWhereItIsAndWhereItLeads) {
    std::string pattern = "/tmp/file-watch-XXXXXX";
    std::filesystem::path const place = ::mkdtemp(pattern.data());
    std::filesystem::create_directories(place / "data/1");
    std::ofstream(place / "data/1/file") << "x";
    std::filesystem::create_symlink("data/1/file", place / "link");
    auto const found = deciding_directories({place / "link"});
    EXPECT_THAT(found, Contains(place.string()));
    EXPECT_THAT(found, Contains((place / "data/1").string()));
    EXPECT_THAT(readable_for({place / "link"}), Contains((place / "data").string()));
    EXPECT_THAT(found, Not(Contains("/")));
    std::filesystem::remove_all(place);
}

}  // namespace
}  // namespace triton::net
