#include <algorithm>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/options.h"

namespace triton::sidecar {
namespace {

/// "": taken; else the reason.
std::string set(std::vector<StageFlag> const& flags, std::string_view name, std::string const& value) {
    auto const flag = std::ranges::find(flags, name, &StageFlag::name);
    if (flag == flags.end()) return "no such flag";
    auto const result = flag->apply(value);
    return result ? "" : result.error().text;
}

TEST(StageFlags, RepeatableOnesAddUpAndOthersReplace) {
    StageOptions options;
    auto const flags = stage_flags(options);
    for (std::string_view const name :
         {"copy-file", "copy-template", "copy-binary", "copy-library", "require-not-empty", "substitute-variable"}) {
        EXPECT_EQ(set(flags, name, "a"), "") << name;
        EXPECT_EQ(set(flags, name, "b c"), "") << name;
        EXPECT_EQ(set(flags, name, ""), "must not be empty") << name;
    }
    std::vector<std::string> const both{"a", "b c"};
    for (auto const& list : {options.files, options.templates, options.binaries, options.libraries,
                             options.require_not_empty, options.substitute_variables})
        EXPECT_EQ(list, both);
    EXPECT_EQ(set(flags, "output-dir", "x"), "");
    EXPECT_EQ(set(flags, "output-dir", "y"), "");
    EXPECT_EQ(options.output_directory, "y");
}

TEST(StageFlags, EveryTextReachesItsOwnMember) {
    StageOptions options;
    auto const flags = stage_flags(options);
    struct Row {
        std::string_view name;
        std::string StageOptions::* member;
    };
    Row const rows[] = {
        {"input-dir", &StageOptions::input_directory},
        {"output-dir", &StageOptions::output_directory},
        {"copy-primary-library", &StageOptions::primary_library},
        {"binary-dir", &StageOptions::binary_directory},
        {"library-dir", &StageOptions::library_directory},
        {"binary-output-dir", &StageOptions::binary_output_directory},
        {"version-file", &StageOptions::version_file},
        {"main-container-version", &StageOptions::main_container_version},
        {"input-monitor-conf", &StageOptions::monitor_conf},
        {"main-container-conf-dir", &StageOptions::main_container_conf_directory},
        {"additional-env-file", &StageOptions::environment_file},
    };
    for (Row const& row : rows) {
        EXPECT_EQ(set(flags, row.name, std::string(row.name)), "");
        EXPECT_EQ(options.*row.member, row.name);
    }
    EXPECT_EQ(set(flags, "output-dir", ""), "must not be empty");
    EXPECT_EQ(set(flags, "main-container-version", ""), "");
}

TEST(StageFlags, SwitchAndFormat) {
    StageOptions options;
    auto const flags = stage_flags(options);
    EXPECT_EQ(set(flags, "watch", "true"), "");
    EXPECT_TRUE(options.watch);
    EXPECT_EQ(set(flags, "watch", "no"), "");
    EXPECT_FALSE(options.watch);
    EXPECT_EQ(set(flags, "watch", "maybe"), "unknown value \"maybe\" (known: true false)");
    EXPECT_EQ(set(flags, "format", "json"), "");
    EXPECT_TRUE(options.as_json);
    EXPECT_EQ(set(flags, "format", "xml"), "unknown value \"xml\" (known: text json)");
    EXPECT_EQ(set(flags, "format", "text"), "");
    EXPECT_FALSE(options.as_json);
}

}  // namespace
}  // namespace triton::sidecar
