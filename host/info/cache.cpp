#include "host/info/cache.h"

#include <algorithm>

#include "lib/json/reader.h"

namespace triton::info {

namespace {

/// `text` must be a JSON string without escapes, as names of states are.
std::string_view without_quotes(std::string_view text) { return text.substr(1, text.size() - 2); }

/// Whether only the times of files differ: a file was replaced by one with the same content.
bool are_alike(Document const& before, Document const& after) {
    auto const is_same = [&](Document::Field const& left, Document::Field const& right) {
        if (left.row != right.row) return false;
        return Document::name_of(left) == "last_modified" ||
               before.value(View::full, left) == after.value(View::full, right);
    };
    return before.is_broken() == after.is_broken() && std::ranges::equal(before.fields(), after.fields(), is_same);
}

}  // namespace

EventPtr Cache::apply(std::string_view name, DocumentPtr document, std::int64_t at) {
    auto const place = documents_.find(name);
    DocumentPtr const before = place == documents_.end() ? nullptr : place->second;
    if (!before && !document) return nullptr;
    if (before && document && *before->text(View::full) == *document->text(View::full)) return nullptr;
    bytes_ += document ? document->bytes() : 0;
    bytes_ -= before ? before->bytes() : 0;
    bool const is_news = !before || !document || !are_alike(*before, *document);
    auto event = is_news ? feed_.add(at, before.get(), document.get()) : nullptr;
    if (!document)
        documents_.erase(place);
    else if (before)
        place->second = std::move(document);
    else
        documents_.emplace(name, std::move(document));
    return event;
}

DocumentPtr Cache::find(std::string_view name) const {
    auto const place = documents_.find(name);
    return place == documents_.end() ? nullptr : place->second;
}

Cache::Counts Cache::counts() const {
    Counts counts{.machines = documents_.size()};
    for (auto const& [name, document] : documents_) {
        counts.broken += document->is_broken() ? 1 : 0;
        std::string_view const state = without_quotes(document->member(View::full, "state").value_or("\"\""));
        auto const place = counts.states.find(state);
        ++(place == counts.states.end() ? counts.states.emplace(state, 0).first : place)->second;
    }
    return counts;
}

}  // namespace triton::info
