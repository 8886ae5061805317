#include "sidecar/kubernetes/event_correlator.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "lib/text/utf8.h"

namespace triton::kubernetes {

namespace {

constexpr std::size_t most_entries = 64;
constexpr std::size_t most_messages = 10;
constexpr std::int64_t group_seconds = 600;
constexpr double burst = 25;
constexpr double seconds_per_token = 300;
constexpr std::string_view combined = "(combined from similar events): ";

}  // namespace

bool EventCorrelator::is_combined(bool is_warning, std::string_view reason, std::string const& message,
                                  std::int64_t seconds) {
    auto group = std::ranges::find_if(
        groups_, [&](Group const& one) { return one.reason == reason && one.is_warning == is_warning; });
    if (group == groups_.end()) group = groups_.insert(group, Group{std::string(reason), is_warning, {}, seconds});
    if (seconds - group->last_seconds > group_seconds) group->messages.clear();
    group->last_seconds = seconds;
    if (std::ranges::find(group->messages, message) != group->messages.end())
        return group->messages.size() > most_messages;
    if (group->messages.size() <= most_messages) group->messages.push_back(message);
    return group->messages.size() > most_messages;
}

void EventCorrelator::observe(bool is_warning, std::string_view reason, std::string_view message, Now now) {
    std::string text = text::shortened(message, longest_message);
    bool const in_group = is_combined(is_warning, reason, text, now.unix_seconds());
    if (in_group) text = text::shortened(std::string(combined) + text, longest_message);
    auto const is_same = [&](Entry const& entry) {
        EventRecord const& record = entry.record;
        if (record.reason != reason || record.is_warning != is_warning) return false;
        return record.message == text || (in_group && record.message.starts_with(combined));
    };
    auto found = std::ranges::find_if(entries_, is_same);
    if (found == entries_.end()) {
        make_room();
        Entry fresh;
        fresh.record = {.id = ++last_id_,
                        .is_warning = is_warning,
                        .reason = std::string(reason),
                        .message = {},
                        .name = new_name(now),
                        .first_seconds = now.unix_seconds()};
        found = entries_.insert(entries_.end(), std::move(fresh));
    }
    found->record.message = std::move(text);
    found->record.last_seconds = now.unix_seconds();
    ++found->record.count;
    found->is_dirty = true;
}

/// A name as unique as client-go's: the time in nanoseconds, in hexadecimal, whose last digits are replaced by a
/// counter.
std::string EventCorrelator::new_name(Now now) {
    std::array<char, 16> text{};
    auto const number = static_cast<std::uint64_t>(now.unix_microseconds) * 1000 + ++names_ % 1000;
    auto const end = std::to_chars(text.data(), text.data() + text.size(), number, 16).ptr;
    return {text.data(), end};
}

void EventCorrelator::make_room() {
    if (entries_.size() < most_entries) return;
    auto const written = std::ranges::find_if(entries_, [](Entry const& entry) { return !entry.is_dirty; });
    entries_.erase(written != entries_.end() ? written : entries_.begin());
}

EventCorrelator::Entry* EventCorrelator::find(std::uint64_t id) {
    auto const found = std::ranges::find_if(entries_, [id](Entry const& entry) { return entry.record.id == id; });
    return found == entries_.end() ? nullptr : &*found;
}

EventCorrelator::Entry const* EventCorrelator::choose(Kind kind) const {
    Entry const* update = nullptr;
    for (Entry const& entry : entries_) {
        if (!entry.is_dirty || (kind == Kind::warnings && !entry.record.is_warning)) continue;
        if (!entry.record.is_created) return &entry;
        if (!update) update = &entry;
    }
    return update;
}

double EventCorrelator::tokens(TimePoint now) const {
    if (!tokens_at_) return tokens_;
    return std::min(burst, tokens_ + std::chrono::duration<double>(now - *tokens_at_).count() / seconds_per_token);
}

double EventCorrelator::missing_tokens(Entry const& entry, TimePoint now, Kind kind) const {
    bool const is_free = kind == Kind::warnings && !entry.record.is_created;
    return is_free ? 0 : 1 - tokens(now);
}

std::optional<EventRecord> EventCorrelator::next(TimePoint now, Kind kind) const {
    Entry const* const entry = choose(kind);
    if (!entry || missing_tokens(*entry, now, kind) > 0) return std::nullopt;
    return entry->record;
}

std::optional<TimePoint> EventCorrelator::next_at(TimePoint now, Kind kind) const {
    Entry const* const entry = choose(kind);
    if (!entry) return std::nullopt;
    double const missing = missing_tokens(*entry, now, kind);
    if (missing <= 0) return now;
    // Rounded up: if we woke a moment early, there would be no token and we would wake again at once.
    return now +
           std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(missing * seconds_per_token)) +
           std::chrono::milliseconds(1);
}

void EventCorrelator::take_token(TimePoint now) {
    tokens_ = tokens(now) - 1;
    tokens_at_ = now;
}

void EventCorrelator::begin(std::uint64_t id) {
    if (Entry* const entry = find(id)) entry->is_dirty = false;
}

void EventCorrelator::written(EventRecord const& record, TimePoint now) {
    take_token(now);
    Entry* const entry = find(record.id);
    if (!entry || entry->record.name != record.name) return;
    entry->record.is_created = true;
    // The entry goes behind those that have waited longer for their update.
    std::rotate(entries_.begin() + (entry - entries_.data()), entries_.begin() + (entry - entries_.data()) + 1,
                entries_.end());
}

void EventCorrelator::failed(std::uint64_t id) {
    if (Entry* const entry = find(id)) entry->is_dirty = true;
}

void EventCorrelator::gone(std::uint64_t id, Now now) {
    take_token(now.time);
    Entry* const entry = find(id);
    if (!entry) return;
    entry->record.name = new_name(now);
    entry->record.is_created = false;
    entry->is_dirty = true;
}

void EventCorrelator::drop(std::uint64_t id, TimePoint now) {
    take_token(now);
    std::erase_if(entries_, [id](Entry const& entry) { return entry.record.id == id; });
}

void EventCorrelator::forget_written(Now now) {
    std::erase_if(entries_, [](Entry const& entry) { return entry.record.is_created && !entry.is_dirty; });
    for (Entry& entry : entries_) {
        entry.record.name = new_name(now);
        entry.record.is_created = false;
    }
}

}  // namespace triton::kubernetes
