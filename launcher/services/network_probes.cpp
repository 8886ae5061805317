#include "launcher/services/network_probes.h"

#include <algorithm>

namespace triton::launcher {

namespace {

// The agent keeps the time itself, and says more about it. Our limit is for an agent that does not answer.
constexpr Duration time_to_tell = std::chrono::seconds(1);

}  // namespace

void NetworkProbes::run(Probe probe, TimePoint now) {
    Waiting& waiting = waiting_.emplace_back(std::move(probe));
    if (is_listening_) send(waiting, now);
}

void NetworkProbes::send(Waiting& waiting, TimePoint now) {
    waiting.id = ++last_id_;
    if (waiting.probe.kind != config::ProbeKind::log) waiting.deadline = now + waiting.probe.timeout + time_to_tell;
    calls_.send(waiting.id, waiting.probe);
}

bool NetworkProbes::cancel(Key key) {
    auto const found = std::ranges::find(waiting_, key, [](Waiting const& one) { return one.probe.key; });
    if (found == waiting_.end()) return false;
    if (found->id != 0) calls_.cancel(found->id);
    answer(found, {.detail = "cancelled", .was_cancelled = true});
    return true;
}

void NetworkProbes::set_listening(bool is_listening, TimePoint now) {
    is_listening_ = is_listening;
    for (Waiting& waiting : waiting_) {
        waiting.id = 0;
        waiting.deadline.reset();
        if (is_listening) send(waiting, now);
    }
}

void NetworkProbes::result(std::uint64_t id, bool ok, std::string_view detail) {
    if (id == 0) return;
    auto const found = std::ranges::find(waiting_, id, &Waiting::id);
    if (found != waiting_.end()) answer(found, {.ok = ok, .detail = std::string(detail)});
}

/// Tells the verdict. The callback may begin another probe.
void NetworkProbes::answer(std::vector<Waiting>::iterator which, Verdict const& verdict) {
    Key const key = which->probe.key;
    waiting_.erase(which);
    calls_.done(key, verdict);
}

std::optional<TimePoint> NetworkProbes::next_deadline() const {
    std::optional<TimePoint> next;
    for (Waiting const& waiting : waiting_) {
        if (waiting.deadline && (!next || *waiting.deadline < *next)) next = waiting.deadline;
    }
    return next;
}

void NetworkProbes::time_passed(TimePoint now) {
    for (;;) {
        auto const late =
            std::ranges::find_if(waiting_, [now](Waiting const& one) { return one.deadline && *one.deadline <= now; });
        if (late == waiting_.end()) return;
        calls_.cancel(late->id);
        answer(late, {.detail = "the agent has not answered in time"});
    }
}

std::vector<NetworkProbes::Probe> NetworkProbes::waiting() const {
    std::vector<Probe> all;
    for (Waiting const& waiting : waiting_)
        all.push_back(waiting.probe);
    return all;
}

}  // namespace triton::launcher
