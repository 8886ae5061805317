#include "host/info/agenda.h"

#include <algorithm>
#include <utility>

namespace triton::info {

using Urgency = WorkQueue::Urgency;

namespace {

std::optional<TimePoint> earlier(std::optional<TimePoint> one, std::optional<TimePoint> other) {
    if (!one || !other) return one ? one : other;
    return std::min(*one, *other);
}

}  // namespace

// --- what is wanted ---

void Agenda::want(std::string_view machine, Parts parts, std::string_view why) {
    if (!put(machine, parts, Urgency::noticed, why)) want_scan("too many machines", true);
}

/// Puts a job for a machine into its queues. Returns false when there are too many machines.
bool Agenda::put(std::string_view machine, Parts parts, Urgency urgency, std::string_view why) {
    bool is_taken = true;
    for (Parts const some : {parts & host_parts, parts & Part::launcher}) {
        if (!some.empty()) is_taken = queue_of(some).want(machine, some, urgency, why) && is_taken;
    }
    return is_taken;
}

void Agenda::want_scan(std::string_view why, bool is_loss) {
    if (is_refreshing_ && !is_loss) return;
    if (!scan_wanted_) scan_wanted_ = why;
}

Ticket Agenda::wait(std::string_view machine, Parts parts) {
    if (!put(machine, parts, Urgency::awaited, "asked")) return wait_all();
    Ticket const ticket{++last_ticket_};
    waiters_.emplace(ticket, Waiter{.machine = std::string(machine), .parts = parts, .to_begin = parts});
    unbegun_.emplace(machine, ticket);
    return ticket;
}

Ticket Agenda::wait_all() {
    want_scan("asked", true);
    scan_not_before_.reset();
    for (std::string const& machine : left_)  // those that are left of the refresh before it
        (void)put(machine, host_parts, Urgency::awaited_refresh, "asked");
    Ticket const ticket{++last_ticket_};
    waiters_.emplace(ticket, Waiter{.refresh = refreshes_ + 1});
    return ticket;
}

void Agenda::forget(Ticket ticket) {
    auto const waiter = waiters_.find(ticket);
    if (waiter == waiters_.end()) return;
    auto const [begin, end] = unbegun_.equal_range(waiter->second.machine);
    auto const place = std::find_if(begin, end, [ticket](auto const& one) { return one.second == ticket; });
    if (place != end) unbegun_.erase(place);
    waiters_.erase(waiter);
}

// --- what to begin ---

/// When a scan is to begin: once the refresh before it is complete.
std::optional<TimePoint> Agenda::scan_at() const {
    if (is_refreshing_) return std::nullopt;
    if (scan_wanted_) return scan_not_before_.value_or(TimePoint::min());
    return refresh_at_;
}

std::optional<Job> Agenda::next(TimePoint now, Parts readable) {
    auto const at = scan_at();
    if (readable.has(Part::stored) && at && *at <= now) return begin_scan();
    if (!(readable & host_parts).empty()) {
        if (auto work = host_.next(now)) return begin(*std::move(work));
    }
    if (readable.has(Part::launcher)) {
        if (auto work = launchers_.next(now)) return begin(*std::move(work));
    }
    return std::nullopt;
}

std::optional<TimePoint> Agenda::next_at(Parts readable) const {
    std::optional<TimePoint> at;
    if (readable.has(Part::stored)) at = scan_at();
    if (!(readable & host_parts).empty()) at = earlier(at, host_.next_at());
    if (readable.has(Part::launcher)) at = earlier(at, launchers_.next_at());
    return at;
}

Job Agenda::begin_scan() {
    Job job{.number = ++last_job_, .why = scan_wanted_.value_or("timer")};
    running_.emplace(job.number, Underway{.job = job, .tickets = {}});
    scan_wanted_.reset();
    refresh_at_.reset();
    is_refreshing_ = is_scanning_ = true;
    ++refreshes_;
    return job;
}

Job Agenda::begin(WorkQueue::Work work) {
    Underway underway{.job = {.number = ++last_job_,
                              .machine = std::move(work.machine),
                              .parts = work.parts,
                              .why = std::move(work.why),
                              .is_refresh = work.is_refresh,
                              .is_slow = work.is_slow},
                      .tickets = {}};
    bool const is_of_host = !underway.job.parts.has(Part::launcher);
    underway.is_of_refresh = is_of_host && left_.erase(*underway.job.machine) > 0;
    attach_waiters(underway);
    return running_.emplace(underway.job.number, std::move(underway)).first->second.job;
}

void Agenda::attach_waiters(Underway& underway) {
    Job const& job = underway.job;
    auto [place, end] = unbegun_.equal_range(*job.machine);
    while (place != end) {
        Waiter& waiter = waiters_.at(place->second);
        if (!(waiter.to_begin & job.parts).empty()) {
            waiter.to_begin = waiter.to_begin.without(job.parts);
            waiter.jobs.insert(job.number);
            underway.tickets.push_back(place->second);
        }
        place = waiter.to_begin.empty() ? unbegun_.erase(place) : std::next(place);
    }
}

// --- what has ended ---

std::vector<Ticket> Agenda::finished(Job const& job, Found const& found, TimePoint now) {
    std::vector<Ticket> answered;
    auto const underway = running_.extract(job.number);
    if (underway.empty()) return answered;
    if (job.machine)
        queue_of(job.parts).finished({*job.machine, job.parts, job.why, job.is_refresh, job.is_slow},
                                     {.has_failed = found.has_failed, .bytes = found.bytes, .took = found.took}, now);
    else
        end_scan(found, now, answered);
    answer_waiters(underway.mapped(), found.has_failed && !found.is_answer, answered);
    end_refresh_when_complete(now, answered);
    return answered;
}

bool Agenda::is_refresh_awaited() const {
    return std::ranges::any_of(waiters_, [](auto const& one) { return one.second.refresh != 0; });
}

/// Counts a failure for all that wait for this scan or an earlier one.
void Agenda::count_failed_scan(std::vector<Ticket>& answered) {
    for (auto place = waiters_.begin(); place != waiters_.end();) {
        Waiter& waiter = place->second;
        bool const has_waited = waiter.refresh != 0 && waiter.refresh <= refreshes_;
        bool const is_answered = has_waited && ++waiter.failures >= most_failures;
        if (is_answered) answered.push_back(place->first);
        place = is_answered ? waiters_.erase(place) : std::next(place);
    }
}

void Agenda::end_scan(Found const& found, TimePoint now, std::vector<Ticket>& answered) {
    is_scanning_ = false;
    if (found.has_failed) {
        is_refreshing_ = false;
        if (!scan_wanted_) scan_wanted_ = "retry";
        scan_retry_ = std::clamp(2 * scan_retry_, settings_.queue.retry, settings_.queue.longest_retry);
        scan_not_before_ = now + scan_retry_;
        return count_failed_scan(answered);
    }
    scan_retry_ = {};
    scan_not_before_.reset();
    Urgency const urgency = is_refresh_awaited() ? Urgency::awaited_refresh : Urgency::refresh;
    for (std::string const& machine : found.machines) {
        put(machine, Part::launcher, Urgency::refresh, "refresh");
        if (put(machine, host_parts, urgency, "refresh")) left_.insert(machine);
    }
}

/// Lets a waiter wait for the next try of a failed job.
/// Returns false when it has seen enough of them fail.
bool Agenda::has_to_wait_again(Ticket ticket, Waiter& waiter, Parts failed) {
    if (++waiter.failures >= most_failures) return false;
    if (waiter.to_begin.empty()) unbegun_.emplace(waiter.machine, ticket);
    waiter.to_begin |= failed & waiter.parts;
    return true;
}

void Agenda::answer_waiters(Underway const& underway, bool has_failed, std::vector<Ticket>& answered) {
    Job const& job = underway.job;
    for (Ticket const ticket : underway.tickets) {
        auto const found = waiters_.find(ticket);
        if (found == waiters_.end()) continue;
        Waiter& waiter = found->second;
        waiter.jobs.erase(job.number);
        if (has_failed && has_to_wait_again(ticket, waiter, job.parts)) continue;
        if (!waiter.jobs.empty() || !waiter.to_begin.empty()) continue;
        waiters_.erase(found);
        answered.push_back(ticket);
    }
}

void Agenda::end_refresh_when_complete(TimePoint now, std::vector<Ticket>& answered) {
    if (!is_refreshing_ || is_scanning_ || !left_.empty()) return;
    if (std::ranges::any_of(running_, [](auto const& one) { return one.second.is_of_refresh; })) return;
    is_refreshing_ = false;
    refresh_at_ = now + settings_.refresh_every;
    for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
        bool const is_answered = waiter->second.refresh != 0 && waiter->second.refresh <= refreshes_;
        if (is_answered) answered.push_back(waiter->first);
        waiter = is_answered ? waiters_.erase(waiter) : std::next(waiter);
    }
}

Agenda::Queue Agenda::queue() const {
    auto const host = host_.sizes();
    auto const launchers = launchers_.sizes();
    Queue queue{.targeted = host.noticed,
                .refresh = host.refresh,
                .delayed = host.delayed,
                .launchers = launchers.noticed + launchers.refresh + launchers.delayed,
                .waiters = waiters_.size(),
                .is_refreshing = is_refreshing_};
    for (auto const& [number, underway] : running_)
        queue.running.push_back(underway.job);
    return queue;
}

}  // namespace triton::info
