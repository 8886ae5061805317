#include "host/info/diff.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "lib/json/lookup.h"

namespace triton::info {

namespace {

using Action = Change::Action;

constexpr std::array<std::string_view, 3> action_names{"added", "changed", "removed"};

/// A list whose elements have names. `list`: its place, with "*" for each element on the way.
struct NamedList {
    std::string_view list;
    std::string_view member;  ///< of an element: its name
};
constexpr auto named_lists = std::to_array<NamedList>({{"nics", "mac"},
                                                       {"filesystems", "target"},
                                                       {"snapshots", "name"},
                                                       {"launch_status.programs", "name"},
                                                       {"launch_status.programs.*.processes", "number"}});

NamedList const* named_list(std::string_view list) {
    auto const row = std::ranges::find(named_lists, list, &NamedList::list);
    return row == named_lists.end() ? nullptr : row;
}

std::string text_of(json::Node const& node) {
    json::Writer out;
    out.value(node);
    return std::move(out).text();
}

/// The name of an element; empty when it has none.
std::string ident_of(json::Node const& element, std::string_view member) {
    json::Node const* const node = json::member(element, member);
    if (!node) return "";
    if (auto const* const text = node->get<std::string>()) return *text;
    auto const* const number = node->get<std::int64_t>();
    return number ? std::to_string(*number) : "";
}

/// The places of a list's elements by name. nullopt: one has no name, or two have the same.
using Places = std::map<std::string, std::size_t>;
std::optional<Places> places_of(json::Array const& list, std::string_view member) {
    Places places;
    for (std::size_t i = 0; i < list.size(); ++i) {
        std::string ident = ident_of(list[i], member);
        if (ident.empty() || !places.emplace(std::move(ident), i).second) return std::nullopt;
    }
    return places;
}

/// Whether the elements that both lists have are in the same order.
bool has_same_order(Places const& before, Places const& after) {
    std::vector<std::pair<std::size_t, std::size_t>> both;
    for (auto const& [ident, place] : before) {
        if (auto const other = after.find(ident); other != after.end()) both.emplace_back(place, other->second);
    }
    std::ranges::sort(both);
    return std::ranges::is_sorted(both, {}, &std::pair<std::size_t, std::size_t>::second);
}

/// The members sorted by key; those with equal keys keep their order.
std::vector<json::Member const*> sorted(json::Object const& object) {
    std::vector<json::Member const*> members;
    for (json::Member const& member : object)
        members.push_back(&member);
    std::ranges::stable_sort(members, {}, [](json::Member const* member) -> auto const& { return member->key; });
    return members;
}

/// The place that is being compared.
struct DocumentPlace {
    std::string path;   ///< "nics.0"
    std::string shape;  ///< "nics.*"
    std::string ident;

    [[nodiscard]] DocumentPlace member(std::string_view key) const {
        std::string const step = (path.empty() ? "" : ".") + std::string(key);
        return {path + step, shape + step, ident};
    }
    [[nodiscard]] DocumentPlace element(std::size_t number, std::string_view name) const {
        std::string const outer = ident.empty() ? "" : ident + ":";
        return {path + "." + std::to_string(number), shape + ".*", outer + std::string(name)};
    }
};

/// Compares the old and the new value of a property. Stops when there are too many changes. The recursion is as deep as
/// the reader of the documents has allowed.
class Comparison {
public:
    void compare(json::Node const& before, json::Node const& after, DocumentPlace const& at) {
        if (is_full()) return;
        auto const* const old_object = before.get<json::Object>();
        auto const* const new_object = after.get<json::Object>();
        if (old_object && new_object) return compare_objects(*old_object, *new_object, at);
        NamedList const* const named = named_list(at.shape);
        if (!named || !compare_named_lists(before, after, named->member, at)) compare_values(before, after, at);
    }

    void add(DocumentPlace const& at, json::Node const& to) { push(at, Action::added, "", text_of(to)); }
    void remove(DocumentPlace const& at, json::Node const& from) { push(at, Action::removed, text_of(from), ""); }

    [[nodiscard]] bool is_full() const { return changes_.size() > most_changes; }
    [[nodiscard]] std::vector<Change> take() && { return std::move(changes_); }

private:
    void push(DocumentPlace const& at, Action action, std::string from, std::string to) {
        if (!is_full()) changes_.push_back({at.path, action, std::move(from), std::move(to), at.ident});
    }

    void compare_values(json::Node const& before, json::Node const& after, DocumentPlace const& at) {
        std::string from = text_of(before);
        std::string to = text_of(after);
        if (from != to) push(at, Action::changed, std::move(from), std::move(to));
    }

    void compare_objects(json::Object const& before, json::Object const& after, DocumentPlace const& at) {
        auto const olds = sorted(before);
        auto const news = sorted(after);
        auto from = olds.begin();
        auto to = news.begin();
        while (from != olds.end() || to != news.end()) {
            bool const is_old = to == news.end() || (from != olds.end() && (*from)->key < (*to)->key);
            bool const is_new = from == olds.end() || (to != news.end() && (*to)->key < (*from)->key);
            if (is_old) {
                remove(at.member((*from)->key), (*from)->node);
                ++from;
            } else if (is_new) {
                add(at.member((*to)->key), (*to)->node);
                ++to;
            } else {
                compare((*from++)->node, (*to)->node, at.member((*to)->key));
                ++to;
            }
        }
    }

    /// Returns false when the elements cannot be told apart by name, or are in another order.
    bool compare_named_lists(json::Node const& before, json::Node const& after, std::string_view member,
                             DocumentPlace const& at) {
        auto const* const old_list = before.get<json::Array>();
        auto const* const new_list = after.get<json::Array>();
        if (!old_list || !new_list) return false;
        auto const olds = places_of(*old_list, member);
        auto const news = places_of(*new_list, member);
        if (!olds || !news || !has_same_order(*olds, *news)) return false;
        for (std::size_t i = 0; i < old_list->size(); ++i) {
            std::string const ident = ident_of((*old_list)[i], member);
            if (!news->contains(ident)) remove(at.element(i, ident), (*old_list)[i]);
        }
        for (std::size_t i = 0; i < new_list->size(); ++i) {
            std::string const ident = ident_of((*new_list)[i], member);
            auto const old = olds->find(ident);
            if (old == olds->end())
                add(at.element(i, ident), (*new_list)[i]);
            else
                compare((*old_list)[old->second], (*new_list)[i], at.element(i, ident));
        }
        return true;
    }

    std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> diff(std::string_view property, std::string_view from, std::string_view to) {
    if (from == to) return {};
    if (from.empty()) return {{std::string(property), Action::added, "", std::string(to), ""}};
    if (to.empty()) return {{std::string(property), Action::removed, std::string(from), "", ""}};
    Comparison comparison;
    comparison.compare(parse_value(from), parse_value(to), DocumentPlace{}.member(property));
    if (!comparison.is_full()) return std::move(comparison).take();
    return {{std::string(property), Action::changed, std::string(from), std::string(to), ""}};
}

/// Both documents have their fields in the order of the property table.
std::vector<Change> diff(Document const& before, Document const& after, View view) {
    std::vector<Change> changes;
    auto const olds = before.fields();
    auto const news = after.fields();
    auto from = olds.begin();
    auto to = news.begin();
    while (from != olds.end() || to != news.end()) {
        bool const has_old = from != olds.end() && (to == news.end() || from->row <= to->row);
        bool const has_new = to != news.end() && (from == olds.end() || to->row <= from->row);
        std::ranges::move(diff(Document::name_of(has_old ? *from : *to), has_old ? before.value(view, *from) : "",
                               has_new ? after.value(view, *to) : ""),
                          std::back_inserter(changes));
        from += has_old ? 1 : 0;
        to += has_new ? 1 : 0;
    }
    return changes;
}

void write_change(json::Writer& out, Change const& change) {
    out.open('{').member("path", change.path).member("prettyPath", change.path);
    out.member("action", action_names[static_cast<std::size_t>(change.action)]);
    out.key("from").raw(change.from.empty() ? "null" : change.from);
    out.key("to").raw(change.to.empty() ? "null" : change.to);
    if (!change.from.empty()) out.key("oldValue").raw(change.from);
    if (!change.to.empty()) out.key("newValue").raw(change.to);
    if (!change.ident.empty()) out.member("ident", change.ident);
    out.close('}');
}

}  // namespace triton::info
