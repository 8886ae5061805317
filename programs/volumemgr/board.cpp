#include "programs/volumemgr/board.h"

namespace triton::program {

void Board::publish(std::string_view kind, std::string const& key, std::string text) {
    Entry& entry = entries_[{std::string(kind), key}];
    if (entry.version != 0 && entry.text == text) return;
    if (entry.version != 0) {
        by_version_.erase(entry.version);
        gone_.erase(entry.version);
    }
    entry = {std::string(kind), key, std::move(text), ++version_};
    by_version_[entry.version] = &entry;
}

void Board::remove(std::string_view kind, std::string const& key) {
    auto const found = entries_.find({std::string(kind), key});
    if (found == entries_.end() || found->second.text.empty()) return;
    publish(kind, key, "");
    gone_[version_] = found->first;
}

Board::Entry const* Board::find(std::string_view kind, std::string const& key) const {
    auto const found = entries_.find({std::string(kind), key});
    return found == entries_.end() || found->second.text.empty() ? nullptr : &found->second;
}

Board::Entry const* Board::after(std::uint64_t version) const {
    auto const next = by_version_.upper_bound(version);
    return next == by_version_.end() ? nullptr : next->second;
}

void Board::forget_gone(std::uint64_t seen) {
    while (!gone_.empty() && gone_.begin()->first <= seen) {
        by_version_.erase(gone_.begin()->first);
        entries_.erase(gone_.begin()->second);
        gone_.erase(gone_.begin());
    }
}

}  // namespace triton::program
