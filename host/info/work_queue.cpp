#include "host/info/work_queue.h"

#include <algorithm>
#include <utility>

namespace triton::info {

bool WorkQueue::want(std::string_view machine, Parts parts, Urgency urgency, std::string_view why) {
    auto place_of = entries_.find(machine);
    if (place_of == entries_.end()) {
        if (entries_.size() >= settings_.most_machines) return false;
        place_of = entries_.emplace(machine, Entry{}).first;
    }
    Entry& entry = place_of->second;
    bool const is_refresh = urgency == Urgency::refresh || urgency == Urgency::awaited_refresh;
    if (!is_refresh || !entry.wants()) entry.why = why;
    (is_refresh ? entry.refresh : entry.noticed) |= parts;
    if (urgency == Urgency::awaited || urgency == Urgency::awaited_refresh) entry.is_awaited = true;
    if (urgency != Urgency::refresh) end_retry(entry);
    place(*place_of);
    return true;
}

/// Ends the wait before a retry: the reason for the failure may be gone. The pause stays, so that this costs nothing
/// more.
void WorkQueue::end_retry(Entry& entry) {
    if (entry.ready_at <= entry.pauses_until) return;
    entry.ready_at = entry.pauses_until;
    if (entry.line == Line::delayed) entry.line = Line::none;
}

std::deque<std::string>& WorkQueue::names_in(Line line) {
    return line == Line::slow ? slow_ : line == Line::refresh ? refresh_ : noticed_;
}

/// Puts an entry into its line; a running one is put there when it has finished.
void WorkQueue::place(Entries::value_type& named) {
    auto& [name, entry] = named;
    if (entry.is_running || !entry.wants()) return;
    if (entry.line == Line::delayed && !entry.is_awaited) return;
    Line const wanted = slow_machines_.contains(name) ? Line::slow
                        : entry.noticed.empty()       ? Line::refresh
                                                      : Line::noticed;
    if (entry.line == wanted) return;
    entry.line = wanted;
    names_in(wanted).push_back(name);
}

void WorkQueue::delay(Entries::value_type& named) {
    named.second.line = Line::delayed;
    delayed_.emplace(named.second.ready_at, named.first);
}

/// Puts entries whose time has come into their lines, and forgets those of which nothing is wanted.
void WorkQueue::end_delays(TimePoint now) {
    while (!delayed_.empty() && delayed_.begin()->first <= now) {
        auto const found = entries_.find(delayed_.begin()->second);
        delayed_.erase(delayed_.begin());
        if (found == entries_.end() || found->second.line != Line::delayed) continue;
        found->second.line = Line::none;
        if (found->second.ready_at > now)
            delay(*found);  // the time was that of an earlier job
        else if (found->second.wants())
            place(*found);
        else
            entries_.erase(found);
    }
}

/// Takes the first name out of a line; null: it may not begin now.
WorkQueue::Entries::value_type* WorkQueue::take_from(Line line, TimePoint now) {
    auto& names = names_in(line);
    auto const found = entries_.find(names.front());
    names.pop_front();
    if (found == entries_.end()) return nullptr;
    Entry& entry = found->second;
    if (entry.line != line) return nullptr;
    entry.line = Line::none;
    if (entry.is_awaited || entry.ready_at <= now) return &*found;
    delay(*found);
    return nullptr;
}

/// The first entry that may begin now; null: there is none.
WorkQueue::Entries::value_type* WorkQueue::take_first(TimePoint now) {
    while (!slow_.empty() && slow_running_ < settings_.most_slow) {
        if (auto* const first = take_from(Line::slow, now)) return first;
    }
    while (!noticed_.empty() || !refresh_.empty()) {
        bool const is_turn_of_refresh = noticed_.empty() || noticed_in_a_row_ >= settings_.fairness;
        bool const is_refresh = !refresh_.empty() && is_turn_of_refresh;
        if (auto* const first = take_from(is_refresh ? Line::refresh : Line::noticed, now)) return first;
    }
    return nullptr;
}

WorkQueue::Work WorkQueue::begin(Entries::value_type& named, TimePoint now) {
    auto& [name, entry] = named;
    Work work{.machine = name,
              .parts = entry.noticed | entry.refresh,
              .why = std::move(entry.why),
              .is_refresh = entry.noticed.empty(),
              .is_slow = slow_machines_.contains(name)};
    if (!work.is_slow) noticed_in_a_row_ = work.is_refresh ? 0 : noticed_in_a_row_ + 1;
    slow_running_ += work.is_slow ? 1 : 0;
    entry.noticed = entry.refresh = {};
    entry.why.clear();
    entry.is_awaited = false;
    entry.is_running = true;
    entry.is_running_slowly = work.is_slow;
    entry.ready_at = entry.pauses_until = now + settings_.pause;
    return work;
}

std::optional<WorkQueue::Work> WorkQueue::next(TimePoint now) {
    end_delays(now);
    auto* const first = take_first(now);
    return first ? std::optional(begin(*first, now)) : std::nullopt;
}

std::optional<TimePoint> WorkQueue::next_at() const {
    for (auto const& [at, name] : delayed_) {
        auto const found = entries_.find(name);
        if (found != entries_.end() && found->second.line == Line::delayed && found->second.wants()) return at;
    }
    return std::nullopt;
}

/// How long a machine pauses after a job that has taken this long.
Duration WorkQueue::slow_pause(std::string const& machine, Duration took, TimePoint now) {
    auto const known = slow_machines_.find(machine);
    if (took < settings_.slow) {
        if (known != slow_machines_.end() && known->second.until <= now) slow_machines_.erase(known);
        return {};
    }
    std::erase_if(slow_machines_, [&](auto const& one) { return one.second.until <= now && one.first != machine; });
    Slow& slow = slow_machines_[machine];
    bool const is_again = slow.until > now;
    slow.pause = is_again ? std::min(2 * slow.pause, settings_.longest_slow_pause) : settings_.slow_pause;
    slow.until = now + settings_.suspicion;
    return slow.pause;
}

void WorkQueue::finished(Work const& work, End const& end, TimePoint now) {
    auto const found = entries_.find(work.machine);
    if (found == entries_.end() || !found->second.is_running) return;
    Entry& entry = found->second;
    entry.is_running = false;
    slow_running_ -= std::exchange(entry.is_running_slowly, false) ? 1 : 0;
    auto const telling = std::chrono::microseconds(end.bytes * 1'000'000 / settings_.bytes_a_second);
    entry.pauses_until = std::max({entry.pauses_until, now + telling, now + slow_pause(work.machine, end.took, now)});
    entry.ready_at = entry.pauses_until;
    if (end.has_failed) {
        if (!entry.wants()) entry.why = work.why;
        (work.is_refresh ? entry.refresh : entry.noticed) |= work.parts;
        entry.retry = std::clamp(2 * entry.retry, settings_.retry, settings_.longest_retry);
        entry.ready_at = std::max(entry.ready_at, now + entry.retry);
    } else {
        entry.retry = {};
    }
    if (entry.wants() && (entry.is_awaited || entry.ready_at <= now))
        place(*found);
    else
        delay(*found);
}

WorkQueue::Sizes WorkQueue::sizes() const {
    Sizes sizes;
    for (auto const& [name, entry] : entries_) {
        bool const is_slow = entry.line == Line::slow;
        sizes.noticed += entry.line == Line::noticed || (is_slow && !entry.noticed.empty()) ? 1 : 0;
        sizes.refresh += entry.line == Line::refresh || (is_slow && entry.noticed.empty()) ? 1 : 0;
        sizes.delayed += entry.line == Line::delayed && entry.wants() ? 1 : 0;
    }
    return sizes;
}

}  // namespace triton::info
