#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/argument.h"
#include "config/layers.h"
#include "config/limits.h"
#include "config/program.h"
#include "lib/base/box.h"
#include "lib/json/problem.h"

namespace triton::config {

/// What to run: the document that `parse()` reads. It has one of two forms: one unnamed program (`version`, `count`,
/// `arguments`), or named programs, for which `version` is a default and may be empty.
struct ProcessConfiguration {
    std::string version;                      ///< usable as one component of a path; not empty without `programs`
    bool run_servers = true;                  ///< false: nothing runs
    std::optional<std::uint32_t> count;       ///< how many processes, 0 to 65535; overrides the command line
    std::vector<Argument> arguments;          ///< without the program itself
    bool has_programs = false;                ///< the second form, also when it names none
    std::vector<Box<Program>> programs = {};  ///< in the document's order, names are unique

    bool operator==(ProcessConfiguration const&) const = default;
};

struct Parsed {
    ProcessConfiguration configuration;
    json::Problems
        warnings;  ///< what an older launcher tolerates from a newer writer: unknown keys, keys without effect
};

/// The readable part of a document, for callers that report everything that is wrong with it.
struct Draft {
    ProcessConfiguration configuration;  ///< with problems: what could be read; every argument is in its place
    json::Problems problems;
    json::Problems warnings;
    bool is_object = false;             ///< false: there is nothing in `configuration`, the text is not a JSON object
    std::optional<Layers> layers = {};  ///< of a document of several: to locate further problems in it
    std::string merged = {};            ///< what such a document says as a whole, as JSON
};

/// Reads a ProcessConfiguration from JSON text (RFC 8259, UTF-8 without BOM).
/// Keys are exact; null for an optional key means that it is absent. Nothing is substituted here.
/// Everything that is wrong is reported, not only the first; a syntax error ends the reading.
Draft read(std::string_view text, Limits const& limits = {});

/// The same of a document of one or more layers, at least one.
Draft read(std::span<Layer const> layers, Limits const& limits = {});

/// The same for callers that accept only valid documents. Errors: the problems, at least one.
std::expected<Parsed, json::Problems> parse(std::string_view text, Limits const& limits = {});

}  // namespace triton::config
