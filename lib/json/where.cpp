#include "lib/json/where.h"

#include <algorithm>

#include "lib/json/text.h"

namespace triton::json {

namespace {

bool is_plain(std::string_view name) {
    auto const plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    };
    return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, plain);
}

void append(std::string& path, Where const& where) {
    if (!where.parent) return;
    append(path, *where.parent);
    append_step(path, where.step);
}

}  // namespace

void append_step(std::string& path, Where::Step const& step) {
    if (auto const* index = std::get_if<std::size_t>(&step)) {
        path.append("[").append(std::to_string(*index)).append("]");
        return;
    }
    std::string_view const name = *std::get_if<std::string_view>(&step);
    if (!is_plain(name)) {
        path.append("[").append(quoted(name)).append("]");
        return;
    }
    if (!path.empty()) path += '.';
    path += name;
}

std::string Where::text() const {
    std::string path;
    append(path, *this);
    return path;
}

}  // namespace triton::json
