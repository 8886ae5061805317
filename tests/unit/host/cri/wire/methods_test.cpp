#include "host/cri/wire/methods.h"

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace {

using namespace triton::cri;

TEST(CriMethods, AreThoseOfTheProtocolFile) {
    std::ifstream file(CRI_PROTOCOL_FILE);
    ASSERT_TRUE(file) << CRI_PROTOCOL_FILE;
    std::set<std::pair<std::string, bool>> declared;
    std::string service;
    std::smatch match;
    for (std::string line; std::getline(file, line);) {
        if (std::regex_search(line, match, std::regex(R"(^service (\w+))"))) service = match[1];
        if (std::regex_search(line, match, std::regex(R"(rpc (\w+)\(\w+\) returns \((stream )?\w+\))")))
            declared.emplace("/runtime.v1." + service + "/" + match[1].str(), match[2].matched);
    }
    std::set<std::pair<std::string, bool>> known;
    for (Method const& method : methods)
        known.emplace(method.path, method.shape == Shape::stream);
    EXPECT_EQ(known, declared);
    EXPECT_EQ(known.size(), 46U);
}

TEST(CriMethods, AreFoundByPath) {
    static_assert(method("PullImage").path == "/runtime.v1.ImageService/PullImage");
    EXPECT_EQ(find_method("/runtime.v1.RuntimeService/Version")->name(), "Version");
    EXPECT_EQ(find_method("/runtime.v1.RuntimeService/PullImage"), nullptr);
    EXPECT_EQ(find_method("/runtime.v1alpha2.RuntimeService/Version"), nullptr);
}

}  // namespace
