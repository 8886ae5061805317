#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "sidecar/agent/routing.h"

namespace triton::agent {
namespace {

/// "GET /ready" and the statuses of its answers, in order: "200 401".
using Answers = std::map<std::string, std::string>;

std::string upper(std::string text) {
    for (char& c : text)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return text;
}

bool is_indented(std::string const& line, std::size_t by) {
    return line.size() > by && line.find_first_not_of(' ') == by;
}

/// What stands before the colon.
std::string key_of(std::string const& line) {
    std::size_t const begin = line.find_first_not_of(' ');
    return line.substr(begin, line.find(':') - begin);
}

/// The document's paths by their indentation, which is the same everywhere; a status is '200': or {'200': ...}.
Answers documented() {
    std::ifstream file(OPENAPI_PATH);
    Answers answers;
    std::string path;
    std::string* statuses = nullptr;
    bool is_in_paths = false;
    for (std::string line; std::getline(file, line);) {
        if (is_indented(line, 0)) is_in_paths = line == "paths:";
        if (!is_in_paths || line.empty()) continue;
        if (is_indented(line, 2)) path = key_of(line);
        if (is_indented(line, 4)) statuses = &answers[upper(key_of(line)) + " " + path];
        for (std::size_t at = line.find('\''); at != line.npos && statuses; at = line.find('\'', at + 1)) {
            std::string const code = line.substr(at + 1, 3);
            bool const is_status = code.find_first_not_of("0123456789") == code.npos && line.substr(at + 4, 2) == "':";
            if (is_status) *statuses += (statuses->empty() ? "" : " ") + code;
        }
    }
    return answers;
}

Answers routed() {
    Answers answers;
    auto const routes = endpoint_routes({.has_ui = true});
    for (std::size_t i = 0; i < routes.size(); ++i) {
        std::string path(routes[i].path);
        if (path.ends_with('/')) path += "{path}";
        std::string const method = routes[i].method == net::HttpMethod::post ? "POST " : "GET ";
        answers[method + path] = statuses_of(endpoint_of(i));
    }
    return answers;
}

TEST(OpenApi, PathsMethodsAndStatusesAreThoseOfTheRoutes) {
    Answers const found = documented();
    EXPECT_GE(found.size(), 16U) << "the document is not read as it is written";
    EXPECT_EQ(found, routed());
}

TEST(OpenApi, WhatIsOpenSaysThatItNeedsNoCertificate) {
    std::ifstream file(OPENAPI_PATH);
    std::stringstream text;
    text << file.rdbuf();
    for (net::HttpRoute const& route : endpoint_routes({.has_ui = true})) {
        std::size_t const begin = text.str().find("\n  " + std::string(route.path));
        ASSERT_NE(begin, std::string::npos) << route.path;
        std::string const part = text.str().substr(begin, text.str().find("\n  /", begin + 1) - begin);
        EXPECT_EQ(part.find("security: []") != part.npos, route.is_open) << route.path;
    }
}

}  // namespace
}  // namespace triton::agent
