#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/reader.h"

namespace triton::test {

/// A Varlink type: a name ("int", "Process"), an enum of words, or a struct; in an array or map, optional, or both.
struct VarlinkType {
    bool is_optional = false;
    bool is_array = false;
    bool is_map = false;  // from strings
    std::string name;
    std::set<std::string> words;
    std::map<std::string, VarlinkType> fields;
};

struct VarlinkInterface {
    struct Method {
        VarlinkType in;
        VarlinkType out;
    };
    std::string name;
    std::map<std::string, VarlinkType> types;
    std::map<std::string, Method> methods;
    std::map<std::string, VarlinkType> errors;
};

/// Reads an interface description. A syntax error is a failure of the running test.
/// Source: https://varlink.org, "Interface Definition".
VarlinkInterface parse_interface(std::string_view text);

/// Whether a value is of a type; else what is wrong with it, for a message.
std::string mismatch(VarlinkInterface const& interface, VarlinkType const& type, json::Node const& value);
std::string mismatch(VarlinkInterface const& interface, VarlinkType const& type, json::Object const& object);

}  // namespace triton::test
