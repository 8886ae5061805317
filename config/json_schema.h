#pragma once

#include <string>

namespace triton::config {

/// The JSON Schema (draft 2020-12) of a ProcessConfiguration, made from the tables of the parser. It refuses unknown
/// keys, as `check` does.
std::string json_schema();

/// The reference page of the same document in Markdown, from the same tables.
std::string reference_markdown();

}  // namespace triton::config
