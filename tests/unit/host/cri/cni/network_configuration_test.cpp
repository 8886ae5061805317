#include "host/cri/cni/network_configuration.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace {

using namespace triton;
using namespace triton::cri;

class CriNetwork : public testing::Test {
protected:
    CriNetwork() { std::filesystem::create_directory(directory); }
    ~CriNetwork() override { std::filesystem::remove_all(directory); }
    void put(std::string const& name, std::string const& text) const { std::ofstream(directory + "/" + name) << text; }
    [[nodiscard]] std::string found() const {
        auto const name = find_network(directory);
        return name ? name->list.name : "error: " + name.error().text();
    }
    std::string directory = testing::TempDir() + "cri-network-" + std::to_string(::getpid());
};

TEST_F(CriNetwork, TheFirstFileByNameCounts) {
    EXPECT_EQ(found(), "error: no network is configured in " + directory);
    put("20-b.conf", R"({"name": "b", "type": "bridge"})");
    put("README", "nothing");
    EXPECT_EQ(found(), "b");
    put("10-a.conflist", R"({"cniVersion": "0.3.0", "name": "a", "plugins": [{"type": "bridge"}]})");
    EXPECT_EQ(found(), "a");
}

TEST_F(CriNetwork, ADirectoryMayBeMissing) {
    std::filesystem::remove_all(directory);
    EXPECT_EQ(found(), "error: no network is configured in " + directory);
}

TEST_F(CriNetwork, BadFilesAreNamed) {
    std::string const path = directory + "/a.json";
    put("a.json", "{");
    EXPECT_THAT(found(), testing::StartsWith("error: " + path + ": "));
    put("a.json", "[]");
    EXPECT_EQ(found(), "error: " + path + ": expected an object");
    put("a.json", R"({"type": "bridge"})");
    EXPECT_EQ(found(), "error: " + path + ": name is missing");
    put("a.json", R"({"name": "a", "plugins": []})");
    EXPECT_EQ(found(), "error: " + path + ": it has no plugins");
}

}  // namespace
