// What a test expects of problems: their texts.
#pragma once

#include <string>
#include <vector>

#include "lib/json/problem.h"

namespace triton::config {

inline std::vector<std::string> texts(json::Problems const& problems) {
    std::vector<std::string> all;
    for (json::Problem const& problem : problems)
        all.push_back(problem.text());
    return all;
}

}  // namespace triton::config
