#include "host/observe/observer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include <fcntl.h>

#include "host/machine/cgroup_usage.h"
#include "host/machine/listing.h"
#include "host/observe/bus_watch.h"
#include "host/observe/file_poll.h"
#include "host/observe/file_watches.h"
#include "host/observe/launcher_events.h"
#include "host/observe/launcher_looks.h"
#include "host/observe/loader.h"
#include "host/observe/records.h"
#include "host/observe/worker.h"
#include "host/observe/zfs_watch.h"
#include "host/parts/host_launcher.h"
#include "host/parts/installed_images.h"
#include "host/parts/late_pool.h"
#include "host/parts/running_host.h"
#include "host/parts/usage.h"
#include "lib/base/clock.h"

namespace triton::observe {

using info::Part;
using info::Parts;

namespace {

constexpr std::size_t most_log_entries = 5;
constexpr int most_looks_in_a_row = 64;
constexpr Duration notice_patience = std::chrono::seconds(1);
constexpr Duration usage_lasts = std::chrono::seconds(1);
/// Some pools can measure a tree only by walking through it, which may take as long as its owner likes.
constexpr Duration disk_usage_lasts = std::chrono::minutes(1);
constexpr int disk_usage_share = 10;  // a pause is this many times as long as the measurement
/// A tree that somebody has to himself for longer is measured the next time.
constexpr std::chrono::milliseconds disk_patience{1000};
constexpr std::size_t most_usage_waiters = 512;
constexpr Duration launcher_patience = std::chrono::seconds(2);  // for a caller who asks for a fresh look
constexpr Duration quick_patience = std::chrono::seconds(1);     // for a whole look with a launcher
constexpr Duration slow_patience = std::chrono::seconds(4);  // the same with one that was slow, in a queue of its own
constexpr std::chrono::milliseconds look_limit{5000};        // for one answer of systemd or machined

/// What a thread needs to look at machines.
struct Eyes {
    std::unique_ptr<storage::Pool> pool;
    parts::InstalledImages images;
    parts::RunningHost running;
    parts::HostLauncher launcher;
    machine::Machines machines;

    Eyes(machine::Layout const& layout, std::unique_ptr<storage::Pool> opened, std::function<std::int64_t()> now)
        : pool(std::move(opened)),
          images(layout),
          running(parts::running_host(layout, "vminfod", look_limit)),
          machines(layout, machine::HostParts{.pool = *pool,
                                              .images = images,
                                              .units = *running.units,
                                              .launcher = launcher,
                                              .now = std::move(now)}) {}
};

std::vector<std::string> unit_controls_of(machine::Layout const& layout) {
    return {layout.root + "/etc/systemd/system.control", layout.root + "/run/systemd/system.control"};
}

WatchedPlaces places_of(machine::Layout const& layout, storage::Pool const& pool) {
    std::string tree = pool.path(machine::tree_of(Uuid()));
    std::string trees = tree.substr(0, tree.rfind(Uuid().text()) - 1);
    return {layout.root, layout.machines(), std::move(trees), unit_controls_of(layout)};
}

/// The text of a property in a document, for example "running".
std::string text_of(info::Document const& document, std::string_view property) {
    auto const member = document.member(info::View::full, property);
    bool const is_plain = member && member->size() >= 2 && member->front() == '"' && !member->contains('\\');
    if (is_plain) return std::string(member->substr(1, member->size() - 2));
    json::ProblemList problems(1);
    auto const node = member ? json::read_json(*member, {}, problems) : std::nullopt;
    auto const* const text = node ? node->get<std::string>() : nullptr;
    return text ? *text : std::string();
}

std::int64_t microseconds_since(TimePoint begin) {
    return std::chrono::duration_cast<std::chrono::microseconds>(steady_now() - begin).count();
}

template <class Entry>
void keep_latest(std::vector<Entry>& entries, Entry entry) {
    if (entries.size() == most_log_entries) entries.erase(entries.begin());
    entries.push_back(std::move(entry));
}

}  // namespace

class Observer::Impl : public std::enable_shared_from_this<Impl> {
public:
    Impl(Settings settings, Around around, std::unique_ptr<storage::Pool> loader_pool,
         std::unique_ptr<storage::Pool> chores_pool, std::unique_ptr<storage::Pool> disks_pool)
        : settings_(std::move(settings)),
          around_(std::move(around)),
          layout_{settings_.root},
          watches_(places_of(layout_, *loader_pool)),
          loader_eyes_(layout_, std::move(loader_pool), settings_.now),
          chores_eyes_(layout_, std::move(chores_pool), settings_.now),
          disks_pool_(std::move(disks_pool)),
          loader_({loader_eyes_.machines, *loader_eyes_.running.units, *loader_eyes_.pool, watches_, records_,
                   settings_.now}),
          poll_(chores_eyes_.machines.store(), *chores_eyes_.pool, unit_controls_of(layout_)),
          inotify_(around_.loop,
                   watches_.fd() >= 0 ? UniqueFd(::fcntl(watches_.fd(), F_DUPFD_CLOEXEC, 3)) : UniqueFd()),
          looks_(around_.loop, {}, look_at_launcher,
                 [this](std::string const& machine) {
                     want(machine, Part::launcher, "returned");
                     pump();
                 }),
          launcher_events_(
              around_.loop, {},
              {[this](std::string const& machine) { launcher_says(machine, Part::launcher); },
               [this](std::string const& machine) { launcher_says(machine, Part::unit | Part::launcher); }}),
          zfs_watch_(std::in_place, around_.loop, ZfsWatch::Settings{.program = settings_.zpool_program},
                     ZfsWatch::Notices{
                         [this](Uuid const& machine) { told(machine.text(), Part::stored | Part::snapshots, "zfs"); },
                         [this](std::string_view why) { lost(why); }, [this] { pump(); }}),
          agenda_timer_(around_.loop),
          looks_timer_(around_.loop),
          poll_timer_(around_.loop),
          stuck_timer_(around_.loop) {
        facts_.started_at = settings_.now();
        if (!layout_.root.empty()) return;  // there is no systemd below another root
        bus_watch_.emplace(
            around_.loop, bus_thread_,
            BusWatch::Notices{
                [this](Uuid const& machine, std::string_view why) { told(machine.text(), Part::unit, why); },
                [this](std::string_view why) { lost(why); }, [this] { load_all(); }, [this] { pump(); }});
    }

    void start(std::function<void()> loaded) {
        if (inotify_.is_open()) net::spawn(around_.loop, take_file_events(shared_from_this()));
        loaded_ = std::move(loaded);
        bus_watch_ ? bus_watch_->start() : load_all();
        watch_zfs();
    }

    void abandon() {
        is_stopping_ = true;
        zfs_watch_.reset();
    }

    void stop() {
        is_stopping_ = true;
        inotify_.close();
        bus_watch_.reset();
        zfs_watch_.reset();
        agenda_timer_.cancel();
        looks_timer_.cancel();
        poll_timer_.cancel();
        stuck_timer_.cancel();
        gives_up_disks_ = true;
        loader_thread_.reset();  // waits for what it is doing
        chores_thread_.reset();
        disks_thread_.reset();
    }

    /// The first load: all watches that are possible exist by now.
    void load_all() {
        around_.agenda.want_scan("start", true);
        waiting_[around_.agenda.wait_all()] = [this](Result<>) {
            is_loaded_ = true;
            loaded_();
        };
        watch_trouble();
        pump();
    }

    // --- what others ask for ---

    /// Reads a machine, then its launcher: only the first read tells whether it has one.
    void look_again(std::optional<Uuid> const& machine, std::function<void(Result<>)> done) {
        if (is_stuck_)
            return net::post(around_.loop, [text = stuck_text(), done = std::move(done)] {
                done(fail(ErrorKind::unavailable, "look again", text));
            });
        info::Agenda& agenda = around_.agenda;
        if (machine) {
            done = [self = shared_from_this(), name = machine->text(), done = std::move(done)](Result<> const& read) {
                if (!self->records_.launcher(name) || self->looks_.hangs(name)) return done(read);
                info::Ticket const ticket = self->around_.agenda.wait(name, Part::launcher);
                self->waiting_[ticket] = done;
                net::spawn(self->around_.loop, wait_no_longer(self, ticket));
                self->pump();
            };
        }
        waiting_[machine ? agenda.wait(machine->text()) : agenda.wait_all()] = std::move(done);
        pump();
    }

    /// Stops waiting for a launcher, because a machine's owner decides how long that takes.
    static net::Task<> wait_no_longer(std::shared_ptr<Impl> self, info::Ticket ticket) {
        co_await net::sleep_for(self->around_.loop, launcher_patience);
        auto const done = self->waiting_.extract(ticket);
        if (done.empty() || self->is_stopping_) co_return;
        self->around_.agenda.forget(ticket);
        done.mapped()({});
    }

    void usage(GotText got) {
        if (is_stopping_) return;
        if (usage_ && steady_now() < usage_made_at_ + usage_lasts)
            return net::post(around_.loop, [got = std::move(got), usage = usage_] { got(usage); });
        if (usage_waiters_.size() >= most_usage_waiters)
            return net::post(around_.loop, [got = std::move(got)] {
                got(std::unexpected(
                    fail(ErrorKind::unavailable, "measure the machines", "too many wait for it").error()));
            });
        usage_waiters_.push_back(std::move(got));
        if (usage_waiters_.size() > 1) return;
        std::vector<parts::Used> machines;
        for (auto const& [name, document] : around_.cache.all())
            if (!document->is_broken())
                machines.push_back({name, text_of(*document, "state"), text_of(*document, "alias"), {}, disk_of(name)});
        begin_disks(machines);
        chores_thread_->run([self = shared_from_this(), machines = std::move(machines)]() mutable {
            auto text = std::make_shared<std::string const>(self->measure(machines));
            net::post(self->around_.loop, [self, text] { self->usage_is_made(text); });
        });
    }

    void history(std::optional<Uuid> const& machine, GotText got) {
        if (is_stopping_) return;
        chores_thread_->run([self = shared_from_this(), machine, got = std::move(got)] {
            auto lines = self->chores_eyes_.machines.store().history(machine);
            std::string text;
            for (std::string const& line : lines ? *lines : std::vector<std::string>())
                text += line + "\n";
            Result<Text> result = std::make_shared<std::string const>(std::move(text));
            if (!lines) result = std::unexpected(lines.error());
            net::post(self->around_.loop, [got, result] { got(result); });
        });
    }

    [[nodiscard]] std::string raw(std::string const& machine) const { return records_.raw(machine); }

    [[nodiscard]] Facts facts() const {
        Facts facts = facts_;
        facts.uptime = microseconds_since(began_);
        facts.since_refresh = microseconds_since(refreshed_at_);
        TimePoint const before = steady_now() - notice_patience;
        for (auto const& [machine, found] : unexplained_)
            facts.missed += static_cast<std::uint64_t>(
                std::ranges::count_if(found, [before](TimePoint at) { return at < before; }));
        auto const queue = around_.agenda.queue();
        facts.is_stuck = is_stuck_;
        facts.state = is_stopping_          ? "stopping"
                      : is_stuck_           ? "stuck"
                      : !is_loaded_         ? "booting"
                      : queue.is_refreshing ? "refreshing"
                                            : "running";
        facts.doing = is_stuck_               ? stuck_text()
                      : !is_loaded_           ? "reading all machines"
                      : queue.is_refreshing   ? "comparing with the host"
                      : queue.running.empty() ? "waiting for changes"
                                              : "working";
        facts.sources = {file_source(), bus_source("systemd", &BusWatch::unit_signals),
                         bus_source("machined", &BusWatch::machine_signals), launcher_source()};
        if (has_zfs() && zfs_watch_) facts.sources.push_back(zfs_source());
        facts.written_off = looks_.written_off();
        return facts;
    }

private:
    using Disks = std::map<std::string, storage::Usage, std::less<>>;  // by machine

    /// The launcher of a machine when it was last wanted.
    struct Noticed {
        LauncherAddress address;
        std::string state;  // of the machine
        bool operator==(Noticed const&) const = default;
    };

    // --- jobs ---

    void pump() {
        if (is_stopping_) return;
        settle_unexplained();
        if (!is_loading_) {
            if (auto job = around_.agenda.next(steady_now(), info::host_parts)) begin_load(*std::move(job));
        }
        begin_looks();
        // What is busy calls pump() when it has finished.
        arm(agenda_timer_, is_loading_ ? std::nullopt : around_.agenda.next_at(info::host_parts));
        arm(looks_timer_, looks_.has_room() ? around_.agenda.next_at(Part::launcher) : std::nullopt);
    }

    void arm(net::Timer& timer, std::optional<TimePoint> at) {
        if (at)
            timer.call_at(*at, [this] { pump(); });
        else
            timer.cancel();
    }

    // --- launchers ---

    /// Begins looks at launchers. Most machines have none that runs, so their jobs end at once.
    void begin_looks() {
        for (int i = 0; i < most_looks_in_a_row && looks_.has_room(); ++i) {
            auto job = around_.agenda.next(steady_now(), Part::launcher);
            if (!job) return;
            auto const address = records_.launcher(*job->machine);
            if (!address || looks_.hangs(*job->machine)) {
                end_job(*job, {});
                continue;
            }
            bool const wants_events = launcher_events_.is_wanted(*job->machine, *address);
            looks_.begin(*job->machine, {*address, wants_events, job->is_slow ? slow_patience : quick_patience},
                         [this, job = *job, address = *address, began = steady_now()](LauncherSeen seen) {
                             if (seen.events) launcher_events_.follow(*job.machine, address, std::move(seen.events));
                             end_look(job, std::move(seen.report), steady_now() - began);
                         });
        }
        if (looks_.has_room()) net::post(around_.loop, [self = shared_from_this()] { self->pump(); });
    }

    /// Ends a look. Another thread makes the machine's object, so that it does not take time of the loop. A launcher
    /// that does not answer is asked again: when a machine has just started, it is not there yet.
    void end_look(info::Job const& job, Report report, Duration took) {
        if (is_stopping_) return;
        loader_thread_->run([self = shared_from_this(), job, report = std::move(report), took]() mutable {
            Findings findings;
            bool const is_silent = !report.content;
            findings.report = std::move(report);
            auto outcome = std::make_shared<Loader::Outcome>();
            outcome->seen = self->records_.take(*job.machine, std::move(findings), self->settings_.now(), job.why);
            outcome->seen->has_failed = is_silent && outcome->seen->launcher;
            outcome->took = took;
            net::post(self->around_.loop, [self, job, outcome] {
                self->end_job(job, *outcome);
                self->pump();
            });
        });
    }

    void launcher_says(std::string const& machine, Parts parts) {
        told(machine, parts, "launcher");
        pump();
    }

    /// Has a new launcher looked at, and again when its machine is up, since it may not have answered before. The
    /// connection to one that has gone is closed.
    void notice_launcher(Observation const& seen) {
        auto const known = launchers_.find(seen.name);
        bool const is_known = known != launchers_.end();
        if (!seen.launcher) {
            if (is_known) launchers_.erase(known);
            return launcher_events_.forget(seen.name);
        }
        Noticed now{*seen.launcher, seen.document ? text_of(*seen.document, "state") : std::string()};
        if (is_known && known->second == now) return;
        launchers_[seen.name] = std::move(now);
        want(seen.name, Part::launcher, "unit");
    }

    void begin_load(info::Job job) {
        is_loading_ = true;
        loads_ = job.machine.value_or("the list of machines");
        loading_since_ = steady_now();
        stuck_timer_.call_at(loading_since_ + settings_.stuck_after, [this] { get_stuck(); });
        if (!job.machine) begin_refresh(job);
        loader_thread_->run([self = shared_from_this(), job = std::move(job)]() mutable {
            auto outcome = std::make_shared<Loader::Outcome>(self->loader_.run(job));
            net::post(self->around_.loop, [self, job = std::move(job), outcome] {
                self->is_loading_ = false;
                self->get_unstuck();
                if (job.machine) ++self->facts_.reloads;
                self->end_job(job, *outcome);
                self->pump();
            });
        });
    }

    /// Reports that a system call hangs, because a pool is suspended or a disk is dying. A restart would not help, so
    /// the process stays and goes on telling what it knew.
    void get_stuck() {
        is_stuck_ = true;
        around_.log.write(log::LogLevel::error, "stuck", stuck_text());
    }

    void get_unstuck() {
        stuck_timer_.cancel();
        if (std::exchange(is_stuck_, false)) around_.log.write(log::LogLevel::info, "goes-on", loads_ + " was read");
    }

    [[nodiscard]] std::string stuck_text() const {
        auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(steady_now() - loading_since_).count();
        return "has been reading " + loads_ + " for " + std::to_string(seconds) + " s: does its storage hang?";
    }

    void end_job(info::Job const& job, Loader::Outcome const& outcome) {
        std::size_t const bytes = outcome.seen ? apply(job, *outcome.seen) : 0;
        if (!job.machine) refresh_.machines = outcome.machines.size();
        bool const has_failed = !outcome.error.empty() || (outcome.seen && outcome.seen->has_failed);
        if (!outcome.error.empty()) note_problem(outcome.error);
        auto const answered = around_.agenda.finished(job,
                                                      {.has_failed = has_failed,
                                                       .is_answer = job.parts == Part::launcher,
                                                       .machines = outcome.machines,
                                                       .bytes = bytes,
                                                       .took = outcome.took},
                                                      steady_now());
        end_refresh_when_complete();
        watch_trouble();
        for (info::Ticket const ticket : answered) {
            auto done = waiting_.extract(ticket);
            if (!done.empty()) net::post(around_.loop, [done = std::move(done.mapped())] { done({}); });
        }
    }

    /// Returns the size of the event that this has caused.
    std::size_t apply(info::Job const& job, Observation const& seen) {
        std::uint64_t& latest = generations_[seen.name];
        if (seen.generation < latest) return 0;
        latest = seen.generation;
        if (!seen.document) generations_.erase(seen.name);
        notice_launcher(seen);
        auto const event = around_.cache.apply(seen.name, seen.document, settings_.now());
        if (!event) return 0;
        if (job.is_refresh && is_loaded_) {
            unexplained_[seen.name].push_back(steady_now());
            ++refresh_.changes;
        }
        around_.has_grown();
        return event->bytes();
    }

    void begin_refresh(info::Job const& job) {
        is_refreshing_ = true;
        refresh_begun_ = steady_now();
        refresh_ = {.at = settings_.now(), .took = 0, .machines = 0, .changes = 0, .why = job.why};
    }

    void end_refresh_when_complete() {
        if (!is_refreshing_ || around_.agenda.is_refreshing()) return;
        is_refreshing_ = false;
        watch_zfs();
        refresh_.took = microseconds_since(refresh_begun_);
        ++facts_.refreshes;
        facts_.refreshed_at = settings_.now();
        refreshed_at_ = steady_now();
        keep_latest(facts_.refresh_log, refresh_);
    }

    /// Counts changes as missed that a refresh has found. Those that are notified soon afterwards do not count: there
    /// the refresh was faster.
    void settle_unexplained() {
        TimePoint const before = steady_now() - notice_patience;
        std::uint64_t missed = 0;
        for (auto found = unexplained_.begin(); found != unexplained_.end();) {
            missed += std::erase_if(found->second, [before](TimePoint at) { return at < before; });
            found = found->second.empty() ? unexplained_.erase(found) : std::next(found);
        }
        facts_.missed += missed;
        if (missed > 0)
            around_.log.write(log::LogLevel::warning, "missed-events",
                              "a refresh has found changes that were not reported",
                              {{"changes", static_cast<std::int64_t>(missed)}});
    }

    void note_problem(std::string text) {
        around_.log.write(log::LogLevel::warning, "read-failed", text);
        keep_latest(facts_.refresh_errors, {settings_.now(), std::move(text)});
    }

    void want(std::string_view machine, Parts parts, std::string_view why) { around_.agenda.want(machine, parts, why); }

    /// Handles a notification. A change that a refresh has just found was then not missed.
    void told(std::string_view machine, Parts parts, std::string_view why) {
        auto const found = unexplained_.find(machine);
        if (found != unexplained_.end() && !found->second.empty()) found->second.pop_back();
        want(machine, parts, why);
    }

    void lost(std::string_view why) {
        around_.log.write(log::LogLevel::warning, "notifications-lost", "all machines are read again", {{"why", why}});
        around_.agenda.want_scan(why, true);
    }

    // --- files ---

    static net::Task<> take_file_events(std::shared_ptr<Impl> self) {
        FileWatches::Notices const notices{
            [&](std::string_view machine, Parts parts, std::string_view why) { self->told(machine, parts, why); },
            [&](std::string_view why) { self->lost(why); },
            [&](std::string_view machine, std::string path) {
                self->look_whether_whole(std::string(machine), std::move(path));
            }};
        while (co_await self->inotify_.wait_readable()) {
            bool const has_more = self->watches_.take_events(notices);
            self->pump();
            if (has_more) co_await net::yield(self->around_.loop);
        }
    }

    void look_whether_whole(std::string machine, std::string path) {
        chores_thread_->run([self = shared_from_this(), machine = std::move(machine), path = std::move(path)] {
            if (!FileWatches::is_whole(path)) return;
            net::post(self->around_.loop, [self, machine] {
                self->told(machine, Part::stored, "file");
                self->pump();
            });
        });
    }

    [[nodiscard]] Facts::Source file_source() const {
        std::string const trouble = watches_.trouble();
        Facts::Source source{.name = "files", .is_working = trouble.empty(), .note = {}};
        if (!trouble.empty()) {
            auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(settings_.poll_every).count();
            source.note = trouble + ": files are polled every " + std::to_string(seconds) + " s";
        }
        source.notifications = watches_.events();
        source.losses = watches_.losses();
        return source;
    }

    [[nodiscard]] Facts::Source bus_source(std::string name, std::uint64_t (BusWatch::*signals)() const) const {
        if (!bus_watch_)
            return {.name = std::move(name), .is_working = false, .note = "below another root nothing runs"};
        return {.name = std::move(name),
                .is_working = bus_watch_->is_connected(),
                .note = bus_watch_->trouble(),
                .notifications = (*bus_watch_.*signals)(),
                .losses = bus_watch_->losses()};
    }

    /// The pool may be made, or named, later than we start.
    void watch_zfs() {
        if (is_zfs_watched_ || is_stopping_ || !has_zfs()) return;
        is_zfs_watched_ = true;
        zfs_watch_->start();
    }

    [[nodiscard]] bool has_zfs() const { return loader_eyes_.pool->kind() == storage::Backend::zfs; }

    [[nodiscard]] Facts::Source zfs_source() const {
        return {.name = "zfs",
                .is_working = zfs_watch_->is_working(),
                .note = zfs_watch_->trouble(),
                .notifications = zfs_watch_->events(),
                .losses = zfs_watch_->losses()};
    }

    [[nodiscard]] Facts::Source launcher_source() const {
        Facts::Source source{
            .name = "launchers", .is_working = looks_.has_room() || looks_.written_off() == 0, .note = {}};
        source.note = std::to_string(launcher_events_.connections()) + " connected";
        if (looks_.written_off() > 0) source.note += ", " + std::to_string(looks_.written_off()) + " hang";
        source.notifications = launcher_events_.notifications();
        return source;
    }

    /// Polls files that cannot be watched, as long as that is so.
    void watch_trouble() {
        bool const is_troubled = !watches_.trouble().empty();
        if (is_troubled && !is_polling_) {
            around_.log.write(log::LogLevel::warning, "files-are-polled", file_source().note);
            begin_poll();
        }
    }

    void begin_poll() {
        is_polling_ = true;
        chores_thread_->run([self = shared_from_this()] {
            auto changed = std::make_shared<std::vector<std::string>>(self->poll_.look());
            net::post(self->around_.loop, [self, changed] { self->end_poll(*changed); });
        });
    }

    void end_poll(std::vector<std::string> const& changed) {
        if (is_stopping_) return;
        for (std::string const& name : changed)
            want(name, info::host_parts, "poll");
        if (watches_.trouble().empty())
            is_polling_ = false;
        else
            poll_timer_.call_at(steady_now() + settings_.poll_every, [this] { begin_poll(); });
        pump();
    }

    // --- usage ---

    [[nodiscard]] std::optional<storage::Usage> disk_of(std::string_view machine) const {
        auto const found = disks_.find(machine);
        return found == disks_.end() ? std::nullopt : std::optional(found->second);
    }

    /// Measures disks for later answers. Nobody waits for that: it may take as long as the owners of machines like.
    void begin_disks(std::vector<parts::Used> const& machines) {
        if (is_measuring_ || steady_now() < disks_due_) return;
        is_measuring_ = true;
        disks_thread_->run([self = shared_from_this(), machines] {
            TimePoint const began = steady_now();
            auto measured = std::make_shared<Disks>();
            for (parts::Used const& used : machines) {
                if (self->gives_up_disks_) return;
                auto const uuid = Uuid::parse(used.uuid);
                if (!uuid) continue;
                auto const disk = self->disks_pool_->usage(machine::tree_of(*uuid));
                // Of a tree that is in use, or that cannot be read now, the last figures stay.
                if (disk || used.disk) (*measured)[used.uuid] = disk ? *disk : *used.disk;
            }
            net::post(self->around_.loop, [self, measured, began] { self->end_disks(std::move(*measured), began); });
        });
    }

    void end_disks(Disks measured, TimePoint began) {
        disks_ = std::move(measured);
        is_measuring_ = false;
        TimePoint const ended = steady_now();
        disks_due_ = ended + std::max<Duration>(disk_usage_lasts, disk_usage_share * (ended - began));
    }

    /// Runs in the thread of chores.
    std::string measure(std::vector<parts::Used>& machines) {
        json::Array rows;
        for (parts::Used& used : machines) {
            auto const uuid = Uuid::parse(used.uuid);
            if (!uuid) continue;
            if (used.state != "stopped") {
                auto const group = chores_eyes_.running.units->control_group(*uuid);
                if (group && !group->empty()) used.processes = machine::read_cgroup_usage("/sys/fs/cgroup", *group);
            }
            rows.push_back(json::Node{parts::usage_row(used)});
        }
        return machine::pretty(json::Node{std::move(rows)});
    }

    void usage_is_made(Text text) {
        usage_ = std::move(text);
        usage_made_at_ = steady_now();
        for (GotText& got : std::exchange(usage_waiters_, {}))
            got(usage_);
    }

    Settings settings_;
    Around around_;
    machine::Layout layout_;
    FileWatches watches_;
    Records records_;
    Eyes loader_eyes_;
    Eyes chores_eyes_;
    std::unique_ptr<storage::Pool> disks_pool_;  // of the thread that measures disks
    Loader loader_;
    FilePoll poll_;
    net::Descriptor inotify_;
    Worker bus_thread_;
    std::optional<BusWatch> bus_watch_;
    LauncherLooks looks_;
    LauncherEvents launcher_events_;
    std::optional<ZfsWatch> zfs_watch_;
    std::map<std::string, Noticed> launchers_;
    net::Timer agenda_timer_;
    net::Timer looks_timer_;
    net::Timer poll_timer_;
    net::Timer stuck_timer_;
    std::string loads_;  // the machine that is being read
    TimePoint loading_since_;
    bool is_stuck_ = false;

    std::map<info::Ticket, std::function<void(Result<>)>> waiting_;
    std::map<std::string, std::uint64_t> generations_;  // of each machine's latest observation
    Facts facts_;
    TimePoint const began_ = steady_now();
    TimePoint refreshed_at_;
    std::map<std::string, std::vector<TimePoint>, std::less<>>
        unexplained_;  // when a refresh has found changes, by machine
    Facts::Refresh refresh_;
    TimePoint refresh_begun_;
    std::function<void()> loaded_;
    bool is_refreshing_ = false;
    bool is_zfs_watched_ = false;
    bool is_loading_ = false;
    bool is_loaded_ = false;
    bool is_polling_ = false;
    bool is_stopping_ = false;

    Text usage_;
    TimePoint usage_made_at_;
    std::vector<GotText> usage_waiters_;
    Disks disks_;  // as last measured
    TimePoint disks_due_ = TimePoint::min();
    bool is_measuring_ = false;
    std::atomic<bool> gives_up_disks_ = false;

    std::unique_ptr<Worker> loader_thread_ = std::make_unique<Worker>();
    std::unique_ptr<Worker> chores_thread_ = std::make_unique<Worker>();
    std::unique_ptr<Worker> disks_thread_ = std::make_unique<Worker>();
};

Observer::Observer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Observer::~Observer() { impl_->stop(); }

Result<std::unique_ptr<Observer>> Observer::create(Settings settings, Around around) {
    machine::Layout const layout{settings.root};
    return std::unique_ptr<Observer>(new Observer(
        std::make_shared<Impl>(std::move(settings), std::move(around), parts::late_host_pool(layout),
                               parts::late_host_pool(layout), parts::late_host_pool(layout, disk_patience))));
}

void Observer::start(std::function<void()> loaded) { impl_->start(std::move(loaded)); }
void Observer::look_again(std::optional<Uuid> const& machine, std::function<void(Result<>)> done) {
    impl_->look_again(machine, std::move(done));
}
void Observer::abandon() { impl_->abandon(); }
void Observer::usage(GotText got) { impl_->usage(std::move(got)); }
void Observer::history(std::optional<Uuid> const& machine, GotText got) { impl_->history(machine, std::move(got)); }
std::string Observer::raw(std::string const& machine) const { return impl_->raw(machine); }
Facts Observer::facts() const { return impl_->facts(); }

}  // namespace triton::observe
