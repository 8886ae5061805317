// Whatever two values of a property are: what differs has changes, what is the same has none, and the way back has as
// many as the way there.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "host/info/diff.h"
#include "lib/json/reader.h"

namespace {

using namespace triton;
using info::Change;

void require(bool holds) {
    if (!holds) std::abort();
}

std::optional<json::Node> parse(std::string_view text) {
    json::ProblemList problems(1);
    return json::read_json(text, {}, problems);
}

/// With the members of objects in order.
json::Node sorted(json::Node const& node) {
    if (auto const* const list = node.get<json::Array>()) {
        json::Array elements;
        for (json::Node const& element : *list)
            elements.push_back(sorted(element));
        return {std::move(elements)};
    }
    auto const* const object = node.get<json::Object>();
    if (!object) return node;
    json::Object members;
    for (json::Member const& member : *object)
        members.push_back({member.key, sorted(member.node)});
    std::ranges::stable_sort(members, {}, &json::Member::key);
    return {std::move(members)};
}

std::string text(json::Node const& node) {
    json::Writer out;
    out.value(node);
    return std::move(out).text();
}

std::size_t count(std::vector<Change> const& changes, Change::Action action) {
    return static_cast<std::size_t>(std::ranges::count(changes, action, &Change::action));
}

void check(Change const& change, std::string_view property) {
    require(change.path.starts_with(property));
    require(change.from.empty() == (change.action == Change::Action::added));
    require(change.to.empty() == (change.action == Change::Action::removed));
    json::Writer out;
    write_change(out, change);
    require(parse(out.text()).has_value());
}

/// The name of a property, a newline, a value, a newline, another value.
int run(std::uint8_t const* data, std::size_t size) {
    std::string_view const input(reinterpret_cast<char const*>(data), size);
    std::size_t const first = input.find('\n');
    std::size_t const second = first == std::string_view::npos ? first : input.find('\n', first + 1);
    if (second == std::string_view::npos) return 0;
    std::string_view const property = input.substr(0, first);
    auto const before = parse(input.substr(first + 1, second - first - 1));
    auto const after = parse(input.substr(second + 1));
    if (!before || !after) return 0;
    auto const there = info::diff(property, text(*before), text(*after));
    auto const back = info::diff(property, text(*after), text(*before));
    require(there.size() <= info::most_changes && there.size() == back.size());
    require(count(there, Change::Action::added) == count(back, Change::Action::removed));
    require(count(there, Change::Action::removed) == count(back, Change::Action::added));
    for (Change const& change : there)
        check(change, property);
    // Lists with names are the same in every order of an element's members; others are compared as they are.
    if (text(*before) == text(*after)) require(there.empty());
    if (text(sorted(*before)) != text(sorted(*after))) require(!there.empty());
    return 0;
}

}  // namespace

extern "C" int diff_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return diff_fuzz(data, size); }
#endif
