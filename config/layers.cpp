#include "config/layers.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "config/document_tables.h"

namespace triton::config {

namespace {

constexpr std::string_view include_key = "include";

json::Node merged_of(json::Node const& patch);

/// Merges the members of a patch into an object, as "MergePatch" of RFC 7396 does.
void apply(json::Object& object, json::Object const& patch) {
    std::unordered_map<std::string_view, std::size_t> places;
    object.reserve(object.size() + patch.size());  // so that keys are not moved
    for (std::size_t i = 0; i < object.size(); ++i)
        places.emplace(object[i].key, i);
    std::vector<bool> is_gone(object.size() + patch.size());
    for (json::Member const& member : patch) {
        auto const known = places.find(member.key);
        bool const is_there = known != places.end();
        if (member.node.get<json::Null>()) {
            if (is_there) is_gone[known->second] = true;
            continue;
        }
        if (!is_there) {
            object.push_back({member.key, merged_of(member.node)});
            places.emplace(object.back().key, object.size() - 1);
            continue;
        }
        json::Node& old = object[known->second].node;
        auto* const inner = std::get_if<json::Object>(&old.value);
        auto const* const patch_of_it = member.node.get<json::Object>();
        if (inner && patch_of_it && !is_gone[known->second]) {
            apply(*inner, *patch_of_it);
        } else {
            old = merged_of(member.node);
        }
        is_gone[known->second] = false;
    }
    std::size_t index = 0;
    std::erase_if(object, [&](json::Member const&) { return is_gone[index++]; });
}

/// What a patch makes out of nothing.
json::Node merged_of(json::Node const& patch) {
    auto const* const members = patch.get<json::Object>();
    if (!members) return patch;
    json::Object object;
    apply(object, *members);
    return {std::move(object)};
}

/// How much of the path `where` exists in a node.
struct Reach {
    std::size_t length = 0;  // how many characters of `where`
    bool is_object = false;  // whether an object is there
};

/// How much of `rest` the step to a member or an element takes; 0 when `rest` begins with another step.
std::size_t length_of_step(json::Where::Step const& step, std::string_view rest, bool is_first) {
    std::string text = is_first ? "" : "x";  // a dot stands between names, not before the first
    json::append_step(text, step);
    std::string_view const wanted = std::string_view(text).substr(is_first ? 0 : 1);
    if (!rest.starts_with(wanted)) return 0;
    std::string_view const after = rest.substr(wanted.size());
    return after.empty() || after.front() == '.' || after.front() == '[' ? wanted.size() : 0;
}

Reach reach_of(json::Node const& root, std::string_view where) {
    Reach reach;
    json::Node const* node = &root;
    for (;;) {
        std::string_view const rest = where.substr(reach.length);
        json::Node const* next = nullptr;
        std::size_t length = 0;
        if (auto const* const members = node->get<json::Object>()) {
            for (json::Member const& member : *members) {
                if (!rest.starts_with('[') && !rest.substr(rest.starts_with('.')).starts_with(member.key)) continue;
                length = length_of_step(std::string_view(member.key), rest, reach.length == 0);
                if (length == 0) continue;
                next = &member.node;
                break;
            }
        } else if (auto const* const elements = node->get<json::Array>(); elements && rest.starts_with('[')) {
            std::size_t index = 0;
            for (char const c : rest.substr(1)) {
                if (c < '0' || c > '9' || index >= elements->size()) break;
                index = index * 10 + static_cast<std::size_t>(c - '0');
            }
            if (index < elements->size()) length = length_of_step(index, rest, reach.length == 0);
            if (length > 0) next = &(*elements)[index];
        }
        reach.is_object = node->get<json::Object>() != nullptr;
        if (!next) return reach;
        reach.length += length;
        node = next;
    }
}

json::Problems in_file(json::Problems problems, std::string const& file) {
    for (json::Problem& problem : problems)
        problem.file = file;
    return problems;
}

bool is_list_of_paths(json::Node const& node) {
    auto const* const paths = node.get<json::Array>();
    return paths && paths->size() <= most_layers && std::ranges::all_of(*paths, [](json::Node const& path) {
               auto const* const text = path.get<std::string>();
               return text && !text->empty() && !text->contains('\0');
           });
}

/// The value of `include` if a first layer may have it.
json::Node const* include_in(json::Node const& document) {
    auto const* const members = document.get<json::Object>();
    if (!members) return nullptr;
    auto const include = std::ranges::find(*members, include_key, &json::Member::key);
    return include != members->end() && is_list_of_paths(include->node) ? &include->node : nullptr;
}

}  // namespace

std::vector<std::string> includes_of(std::string_view text, Limits const& limits) {
    std::vector<std::string> paths;
    // The search begins with a letter: a quote is everywhere.
    if (text.size() > most_including_bytes || !text.contains("include\"")) return paths;
    json::ProblemList problems(limits.document.problems);
    auto const document = json::read_json(text, limits.document, problems);
    json::Node const* const include = document ? include_in(*document) : nullptr;
    if (!include) return paths;
    for (json::Node const& path : *include->get<json::Array>())
        paths.push_back(*path.get<std::string>());
    return paths;
}

Layers::Layers(std::span<Layer const> layers, Limits const& limits, json::Problems& problems) {
    for (Layer const& layer : layers) {
        json::ProblemList of_layer(limits.document.problems);
        auto node = json::read_json(layer.text, limits.document, of_layer);
        if (node && !layer.file.empty() && !node->get<json::Object>()) {
            of_layer.add("", std::string("expected an object, found ").append(node->kind()));
            node.reset();
        }
        json::Problems found = in_file(std::move(of_layer).take(), layer.file);
        problems.insert(problems.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
        layers_.push_back({layer.file, std::move(node)});
    }
    if (layers.empty() || !layers.front().is_including || !layers_.front().node) return;
    if (!include_in(*layers_.front().node)) return;
    auto& members = std::get<json::Object>(layers_.front().node->value);
    std::erase_if(members, [](json::Member const& member) { return member.key == include_key; });
}

std::optional<json::Node> Layers::merged() const {
    if (layers_.empty() || !std::ranges::all_of(layers_, [](Read const& read) { return read.node.has_value(); }))
        return std::nullopt;
    if (layers_.size() == 1 || !layers_.front().node->get<json::Object>()) return layers_.front().node;
    json::Object all;
    for (Read const& layer : layers_)
        apply(all, *layer.node->get<json::Object>());
    return json::Node{std::move(all)};
}

std::string Layers::file_of(std::string_view where) const {
    Reach best;
    std::size_t found = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        if (!layers_[i].node) continue;
        Reach const reach = reach_of(*layers_[i].node, where);
        if (reach.length < best.length || (reach.length == best.length && reach.is_object)) continue;
        best = reach;
        found = i;
    }
    return layers_.empty() ? std::string() : layers_[found].file;
}

}  // namespace triton::config
