#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/limits.h"
#include "lib/json/problem.h"

namespace triton::config {

struct EnvironmentVariable {
    std::string name;
    std::string value;

    bool operator==(EnvironmentVariable const&) const = default;
};

struct EnvironmentFile {
    std::vector<EnvironmentVariable> values;  ///< of the good lines; sorted by name, each name once
    json::Problems problems;  ///< every bad line, with where = "line 3"; the caller decides how bad they are
};

/// Whether a shell takes the text as the name of a variable: [A-Za-z_][A-Za-z0-9_]*.
bool is_variable_name(std::string_view text);

/// Reads `NAME=value` lines, `export NAME=value` too. The value is the rest of the line, unchanged: no unquoting, no
/// expansion; it may contain `=` and be empty. Blank lines and lines that begin with # are skipped, lines may end in
/// CRLF, of two lines with one name the later wins. Names: [-._A-Za-z][-._A-Za-z0-9]*, as Kubernetes has them, since
/// programs read names with dots and dashes that no shell takes. Problems never quote a value: such
/// files carry secrets.
EnvironmentFile parse_environment_file(std::string_view text, Limits const& limits = {});

}  // namespace triton::config
