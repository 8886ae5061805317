#include "launcher/supervisor/process_history.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace triton::launcher {

namespace {

constexpr Duration between_changes = std::chrono::seconds(10);

std::size_t text_of(ProbeRecord const& result) { return result.why.size() + result.output.size(); }

bool is_of(auto const& record, ProcessId id) {
    return record.program == static_cast<std::uint32_t>(id.program) &&
           record.number == static_cast<std::uint32_t>(id.number);
}

/// The place of a new record among at most `most`: that of the oldest one like it, if there are `most_alike`; else that
/// of the oldest of all, if there is no room; else a new one at the end. One pass over a bounded number of records.
template <class T>
T& place_for(std::vector<T>& all, std::size_t most, std::size_t most_alike, auto const& is_alike) {
    T* oldest = nullptr;
    T* oldest_alike = nullptr;
    std::size_t alike = 0;
    for (T& one : all) {
        if (!oldest || one.sequence < oldest->sequence) oldest = &one;
        if (!is_alike(one)) continue;
        ++alike;
        if (!oldest_alike || one.sequence < oldest_alike->sequence) oldest_alike = &one;
    }
    if (alike >= most_alike) return *oldest_alike;
    if (all.size() >= most) return *oldest;
    return all.emplace_back();
}

template <class T>
std::vector<T const*> those_of(std::vector<T> const& all, ProcessId id) {
    std::vector<T const*> found;
    for (T const& one : all)
        if (is_of(one, id)) found.push_back(&one);
    std::ranges::sort(found, {}, [](T const* one) { return one->sequence; });
    return found;
}

}  // namespace

void ProcessHistory::note(Report const& report, std::int64_t time) {
    EndRecord end{.time = time};
    auto const set_id = [&end](ProcessId id) {
        end.program = static_cast<std::uint32_t>(id.program);
        end.number = static_cast<std::uint32_t>(id.number);
    };
    if (auto const* const exited = std::get_if<action::ReportExited>(&report)) {
        set_id(exited->id);
        end.run = exited->run;
        end.status = exited->status;
        end.fault = exited->fault;
        end.was_asked_for = exited->was_asked_for;
        end.was_oom_killed = exited->was_oom_killed;
        add(end);
    } else if (auto const* const failed = std::get_if<action::ReportStartFailed>(&report)) {
        set_id(failed->id);
        end.error_code = static_cast<std::uint16_t>(failed->error.code);
        end.error_stage = static_cast<std::uint8_t>(failed->error.stage);
        add(end);
    }
}

void ProcessHistory::add(EndRecord end) {
    end.sequence = ++sequence_;
    place_for(ends_, most_ends, ends_of_process, [&end](EndRecord const& other) {
        return other.program == end.program && other.number == end.number;
    }) = end;
}

void ProcessHistory::add(ProbeRecord result) {
    result.sequence = ++sequence_;
    if (result.output.size() > longest_output) result.output.erase(0, result.output.size() - longest_output);
    if (result.why.size() > longest_output) result.why.resize(longest_output);
    ProbeRecord& place = place_for(results_, most_results, results_of_check, [&result](ProbeRecord const& other) {
        return other.program == result.program && other.number == result.number && other.helper == result.helper;
    });
    text_ += text_of(result) - text_of(place);
    place = std::move(result);
    if (text_ > most_text) drop_text();
}

/// Drops the older half of the results when their texts are too long: not one at a time, so that this is rare.
void ProcessHistory::drop_text() {
    std::ranges::sort(results_, {}, &ProbeRecord::sequence);
    std::size_t dropped = 0;
    for (; dropped < results_.size() && text_ > most_text / 2; ++dropped)
        text_ -= text_of(results_[dropped]);
    results_.erase(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(dropped));
}

void ProcessHistory::forget(ProgramId id) {
    auto const program = static_cast<std::uint32_t>(id);
    std::erase_if(ends_, [program](EndRecord const& one) { return one.program == program; });
    std::erase_if(results_, [&](ProbeRecord const& one) {
        if (one.program != program) return false;
        text_ -= text_of(one);
        return true;
    });
}

std::vector<EndRecord const*> ProcessHistory::ends_of(ProcessId id) const { return those_of(ends_, id); }

std::vector<ProbeRecord const*> ProcessHistory::results_of(ProcessId id) const { return those_of(results_, id); }

ProbeRecord const* ProcessHistory::failure_of(ProcessId id, Helper helper) const {
    ProbeRecord const* latest = nullptr;
    for (ProbeRecord const& one : results_) {
        if (!is_of(one, id) || one.helper != static_cast<std::uint8_t>(helper)) continue;
        if (!latest || one.sequence > latest->sequence) latest = &one;
    }
    return latest && !latest->is_ok ? latest : nullptr;
}

void ProcessHistory::restore(std::vector<EndRecord> ends, std::vector<ProbeRecord> results) {
    std::ranges::sort(ends, {}, &EndRecord::sequence);
    for (EndRecord const& end : ends)
        add(end);
    std::ranges::sort(results, {}, &ProbeRecord::sequence);
    for (ProbeRecord& result : results)
        add(std::move(result));
}

std::uint32_t ReadinessNews::failed(ProcessId id, std::string_view why, TimePoint now) {
    Waiting& waiting = waiting_[key(id)];
    if (waiting.count < std::numeric_limits<std::uint32_t>::max()) ++waiting.count;
    bool const is_first = waiting.count == 1;
    if (!is_first && (waiting.told == why || now - waiting.told_at < between_changes)) return 0;
    waiting.told = why;
    waiting.told_at = now;
    return waiting.count;
}

std::uint32_t ReadinessNews::count(ProcessId id) const {
    auto const found = waiting_.find(key(id));
    return found == waiting_.end() ? 0 : found->second.count;
}

}  // namespace triton::launcher
