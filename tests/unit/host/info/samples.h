#pragma once

#include <string_view>

#include <gtest/gtest.h>

#include "host/info/document.h"
#include "host/machine/properties.h"

namespace triton::info {

inline constexpr std::int64_t at = 1'795'390'697'042'000;  // 2026-11-22T23:38:17.042Z
inline constexpr std::string_view first_uuid = "00000000-0000-4000-8000-000000000001";
inline constexpr std::string_view second_uuid = "00000000-0000-4000-8000-000000000002";

/// A machine as its file says; `members`: further ones, ending in a comma.
inline machine::Machine sample(std::string_view members = "", std::string_view uuid = first_uuid) {
    auto machine = machine::parse_file(
        "{" + std::string(members) + R"("brand":"lx","phase":"installed","uuid":")" + std::string(uuid) + R"("})",
        "test");
    EXPECT_TRUE(machine) << machine.error().text();
    return machine ? *std::move(machine) : machine::Machine{};
}

inline DocumentPtr document(std::string_view members = "", std::string_view uuid = first_uuid) {
    return make_document(sample(members, uuid));
}

inline json::Object object(std::string_view text) {
    json::ProblemList problems(9);
    auto read = json::read_json(text, {}, problems);
    auto* const found = read ? std::get_if<json::Object>(&read->value) : nullptr;
    EXPECT_TRUE(found) << text;
    return found ? std::move(*found) : json::Object{};
}

}  // namespace triton::info
