#include "tests/simulation/host/info_world.h"

#include <algorithm>
#include <utility>

#include "lib/json/lookup.h"
#include "lib/json/reader.h"

namespace triton::simulation {

using info::Part;
using info::Parts;
using std::chrono::minutes;
using std::chrono::seconds;

InfoWorld::InfoWorld(Settings settings) : settings_(settings), random_(settings.seed), feed_(0, settings.feed) {
    agenda_.want_scan("start", true);
    for (std::size_t i = 0; i < settings_.readers; ++i)
        add_reader();
}

// --- time ---

void InfoWorld::pass(Duration duration) {
    TimePoint const end = now_ + duration;
    while (!due_.empty() && due_.begin()->first <= end) {
        auto const first = due_.extract(due_.begin());
        now_ = std::max(now_, first.key());
        first.mapped()();
        begin_jobs();
    }
    now_ = end;
    begin_jobs();
}

void InfoWorld::later(Duration least, Duration most, std::function<void()> what) {
    auto const span = static_cast<std::uint64_t>((most - least) / milliseconds(1)) + 1;
    due_.emplace(now_ + least + milliseconds(random_.below(span)), std::move(what));
}

void InfoWorld::step() {
    switch (random_.below(10)) {
        case 0: create(); break;
        case 1:
            if (random_.one_in(4)) remove();
            break;
        case 2:
        case 3:
        case 4: change(); break;
        case 5:
            if (auto const machine = any_machine()) notify(*machine, each_part[random_.below(4)]);
            break;
        case 6: wait(); break;
        case 7:
            if (random_.one_in(50)) add_reader();
            if (random_.one_in(100)) lose();
            break;
        default: {
            Subscriber& one = subscribers_[random_.below(subscribers_.size())];
            if (!one.is_slow || random_.one_in(40)) read(one, 1 + random_.below(4000));
        }
    }
    pass(milliseconds(random_.below(static_cast<std::uint64_t>(settings_.longest_step.count()) + 1)));
    check_bounds();
}

void InfoWorld::settle() {
    is_calm_ = true;
    for (int i = 0; i < 700; ++i)
        pass(seconds(1));
    for (Subscriber& subscriber : subscribers_) {
        while (subscriber.reader->has_more())
            read(subscriber, 100'000);
    }
    for (Subscriber& subscriber : subscribers_) {
        while (subscriber.reader->has_more())
            read(subscriber, 100'000);
    }
    check_end();
    is_calm_ = false;
}

// --- the host ---

std::string InfoWorld::name_of(std::size_t number) const {
    std::string const digits = std::to_string(100 + number);
    return "00000000-0000-4000-8000-000000000" + digits;
}

std::size_t InfoWorld::index_of(Part part) {
    return static_cast<std::size_t>(std::ranges::find(each_part, part) - each_part.begin());
}

std::optional<std::string> InfoWorld::any_machine() {
    if (host_.empty()) return std::nullopt;
    return std::next(host_.begin(), static_cast<std::ptrdiff_t>(random_.below(host_.size())))->first;
}

void InfoWorld::create() {
    std::string const name = name_of(random_.below(settings_.machines));
    if (host_.contains(name)) return;
    ++version_;
    host_[name] = {version_, version_, version_, version_};
    notify(name, info::all_parts);
}

void InfoWorld::remove() {
    auto const name = any_machine();
    if (!name) return;
    host_.erase(*name);
    notify(*name, info::all_parts);
}

void InfoWorld::change() {
    auto const name = any_machine();
    if (!name) return;
    Part const part = each_part[random_.below(4)];
    host_[*name][index_of(part)] = ++version_;
    notify(*name, part);
}

/// At once, late, twice, or never; of what is never told only a refresh knows.
void InfoWorld::notify(std::string const& machine, Parts parts) {
    if (random_.one_in(20)) return;
    auto const tell = [this, machine, parts] { agenda_.want(machine, parts, "told"); };
    if (random_.one_in(4))
        later(milliseconds(0), seconds(2), tell);
    else
        tell();
    if (random_.one_in(10)) later(milliseconds(0), seconds(2), tell);
}

void InfoWorld::lose() { agenda_.want_scan("loss", true); }

// --- the observer ---

void InfoWorld::begin_jobs() {
    while (!is_loading_) {
        auto const job = agenda_.next(now_, info::host_parts);
        if (!job) break;
        is_loading_ = true;
        check_pause(*job);
        run(*job);
    }
    check_progress();
    while (looks_ < 4) {
        auto const job = agenda_.next(now_, Part::launcher);
        if (!job) break;
        ++looks_;
        begin_look(*job);
        run(*job);
    }
    auto const at = agenda_.next_at(is_loading_ ? Parts(Part::launcher) : info::all_parts);
    if (at && *at > now_ && (due_.empty() || *at < due_.begin()->first)) due_.emplace(*at, [] {});
}

/// A job reads each part at a moment of its own.
void InfoWorld::run(info::Job const& job) {
    bool const has_failed = !is_calm_ && random_.one_in(15);
    bool const hangs = job.parts == Part::launcher && *job.machine < name_of(2) && !random_.one_in(3);
    Duration const most = random_.one_in(30) ? seconds(3) : milliseconds(30);
    auto const length = hangs ? milliseconds(4000)
                              : milliseconds(random_.below(static_cast<std::uint64_t>(most / milliseconds(1)) + 1));
    if (!job.machine) {
        later(milliseconds(0), length, [this, job, has_failed, length] {
            std::vector<std::string> machines;
            for (auto const& [name, versions] : host_)
                machines.push_back(name);
            for (auto const& [name, document] : cache_.all()) {
                if (!host_.contains(name)) machines.push_back(name);
            }
            later(length, length, [this, job, machines, has_failed] { end_scan(job, machines, has_failed); });
        });
        return;
    }
    auto const seen = std::make_shared<Versions>();
    for (Part const part : each_part) {
        if (!job.parts.has(part)) continue;
        later(milliseconds(0), length, [this, seen, part, name = *job.machine] {
            auto const machine = host_.find(name);
            (*seen)[index_of(part)] = machine == host_.end() ? 0 : machine->second[index_of(part)];
        });
    }
    later(length, length, [this, job, seen, has_failed, length] { end(job, *seen, has_failed, length); });
}

void InfoWorld::end(info::Job const& job, Versions const& seen, bool has_failed, Duration took) {
    std::string const& name = *job.machine;
    if (job.parts.has(Part::launcher))
        end_look(job, took);
    else
        is_loading_ = false;
    for (auto& [ticket, wait] : waits_)
        wait.failures += has_failed && wait.machine.value_or(name) == name ? 1 : 0;
    if (!has_failed) {
        for (Part const part : each_part) {
            if (job.parts.has(part)) seen_[name][index_of(part)] = seen[index_of(part)];
        }
        apply(name);
    }
    answer(agenda_.finished(job, {.has_failed = has_failed, .took = job.parts.has(Part::launcher) ? took : Duration()},
                            now_));
}

void InfoWorld::end_scan(info::Job const& job, std::vector<std::string> const& machines, bool has_failed) {
    is_loading_ = false;
    for (auto& [ticket, wait] : waits_)
        wait.failed_scans += has_failed && !wait.machine ? 1 : 0;
    answer(agenda_.finished(job, {.has_failed = has_failed, .machines = machines}, now_));
}

void InfoWorld::apply(std::string const& machine) {
    Versions const versions = seen_[machine];
    bool const is_there = versions[index_of(Part::stored)] != 0;
    auto const event = cache_.apply(machine, is_there ? document_of(machine, versions) : nullptr, 0);
    if (!is_there) seen_.erase(machine);
    if (event && event->sequence() + 1 != feed_.next()) fail("an event has a wrong number");
}

info::DocumentPtr InfoWorld::document_of(std::string const& name, Versions const& versions) {
    machine::Machine machine;
    machine.uuid = Uuid::parse(name).value_or(Uuid());
    machine.alias = std::to_string(versions[0]);
    machine.pid = static_cast<std::int64_t>(versions[1]);
    machine.snapshots = {{std::to_string(versions[2])}};
    json::Object status;
    status.push_back({"error", {std::to_string(versions[3])}});
    machine.launch_status = std::move(status);
    return info::make_document(machine);
}

// --- those who wait ---

void InfoWorld::wait() {
    if (random_.one_in(10)) {
        waits_[agenda_.wait_all()] = {
            .machine = std::nullopt, .parts = info::host_parts, .version = version_, .known = host_};
        return;
    }
    std::string const name = name_of(random_.below(settings_.machines));
    Parts const parts = random_.one_in(2) ? info::host_parts : info::all_parts;
    auto const ticket = agenda_.wait(name, parts);
    asked_.insert(name);
    if (parts.has(Part::launcher)) asked_of_launcher_.insert(name);
    Wait wait{.machine = name, .parts = parts, .version = version_, .known = {}};
    if (host_.contains(name)) wait.known[name] = host_[name];
    waits_[ticket] = std::move(wait);
    if (random_.one_in(20)) {
        agenda_.forget(ticket);
        waits_.erase(ticket);
    }
}

void InfoWorld::answer(std::vector<info::Ticket> const& tickets) {
    for (info::Ticket const ticket : tickets) {
        auto const wait = waits_.extract(ticket);
        if (wait.empty()) {
            fail("somebody is answered who has not asked");
            continue;
        }
        ++answered_;
        check_wait(wait.mapped());
    }
}

/// What could not be read is not what was waited for; of a wait for all, a machine that could not does not count.
void InfoWorld::check_wait(Wait const& wait) {
    if (wait.failed_scans >= info::Agenda::most_failures) return;
    if (wait.failures >= (wait.machine ? info::Agenda::most_failures : 1)) return;
    if (wait.machine) return check_seen(*wait.machine, wait);
    for (std::size_t i = 0; i < settings_.machines; ++i)
        check_seen(name_of(i), wait);
}

/// The cache has what the host was when it was asked, or something later.
void InfoWorld::check_seen(std::string const& name, Wait const& wait) {
    std::size_t const stored = index_of(Part::stored);
    auto const of = [&name](Machines const& machines) {
        auto const machine = machines.find(name);
        return machine == machines.end() ? Versions{} : machine->second;
    };
    Versions const now = of(seen_);
    Versions const then = of(wait.known);
    for (Part const part : each_part) {
        std::size_t const i = index_of(part);
        if (wait.parts.has(part) && now[i] != 0 && now[i] < then[i])  // 0: it was gone when that was read
            fail("a read after the wait for " + name + " sees what was before it");
    }
    if (then[stored] == 0 && now[stored] != 0 && now[stored] <= wait.version)
        fail(name + " was gone and is there after the wait for it");
    bool const has_stayed = then[stored] != 0 && of(host_)[stored] == then[stored];
    if (now[stored] == 0 && has_stayed) fail(name + " was there and is missing after the wait for it");
}

// --- readers ---

/// A new one, or one that has lost its connection and continues where it was.
void InfoWorld::add_reader() {
    Subscriber subscriber;
    subscriber.is_slow = random_.one_in(3);
    info::Reader::Options options{.view = random_.one_in(2) ? info::View::full : info::View::open, .snapshot = true};
    bool const is_full = subscribers_.size() == settings_.readers;
    Subscriber* const gone = is_full ? &subscribers_[random_.below(subscribers_.size())] : nullptr;
    if (gone && gone->sequence != 0 && random_.one_in(2)) {
        options = gone->reader->options();
        options.since = gone->sequence;
        subscriber.mirror = std::move(gone->mirror);
        subscriber.sequence = gone->sequence;
    } else if (random_.one_in(4)) {
        options.since = ~std::uint64_t{0};  // of another life
    }
    subscriber.reader = std::make_unique<info::Reader>(std::move(options), "reader", cache_, feed_, places_);
    if (gone) {
        resyncs_of_gone_ += gone->reader->resyncs();
        *gone = std::move(subscriber);
    } else {
        subscribers_.push_back(std::move(subscriber));
    }
}

std::uint64_t InfoWorld::resyncs() const {
    std::uint64_t sum = resyncs_of_gone_;
    for (Subscriber const& subscriber : subscribers_)
        sum += subscriber.reader->resyncs();
    return sum;
}

void InfoWorld::read(Subscriber& subscriber, std::size_t budget) {
    for (info::Text const& piece : subscriber.reader->next(budget, 0)) {
        subscriber.line += *piece;
        if (!subscriber.line.ends_with('\n')) continue;
        take(subscriber, subscriber.line);
        subscriber.line.clear();
    }
}

/// Keeps a mirror of the machines, as a client does.
void InfoWorld::take(Subscriber& subscriber, std::string const& line) {
    json::ProblemList problems(1);
    auto const record = json::read_json(line, {}, problems);
    auto const* const object = record ? record->get<json::Object>() : nullptr;
    if (!object) return fail("a reader gets what is not JSON: " + line);
    std::string const type = json::text_of(*object, "type");
    auto const sequence = static_cast<std::uint64_t>(json::number_of(*object, "seq").value_or(0));
    bool const is_event = type == "create" || type == "modify" || type == "delete";
    if (is_event ? sequence <= subscriber.sequence : sequence < subscriber.sequence)
        fail("a reader goes back from " + std::to_string(subscriber.sequence) + ": " + line);
    if (is_event) {
        take_event(subscriber, *object, line);
    } else if (type != "ack") {
        subscriber.mirror.clear();
        for (json::Node const& machine : json::list_of(*object, "vms"))
            subscriber.mirror[json::text_of(machine, "uuid")] = machine;
    }
    // An ack of somebody whose place is gone has the end of the feed: all that is new to it comes with the resync.
    if (type != "ack") subscriber.sequence = sequence;
}

void InfoWorld::take_event(Subscriber& subscriber, json::Object const& event, std::string const& line) {
    std::string const uuid = json::text_of(event, "uuid");
    std::string const type = json::text_of(event, "type");
    auto const known = subscriber.mirror.find(uuid);
    if ((known == subscriber.mirror.end()) != (type == "create")) return fail("an event cannot be: " + line);
    for (json::Node const& change : json::list_of(event, "changes")) {
        if (json::text_of(change, "path") == "alias" &&
            json::text_of(change, "from") != json::text_of(known->second, "alias"))
            fail("a change begins with what was not: " + line);
    }
    if (type == "delete")
        subscriber.mirror.erase(known);
    else
        subscriber.mirror[uuid] = *json::member(event, "vm");
}

// --- what must hold ---

void InfoWorld::fail(std::string text) {
    if (problem_.empty()) problem_ = "seed " + std::to_string(settings_.seed) + ": " + std::move(text);
}

bool InfoWorld::is_all_awaited() const {
    return std::ranges::any_of(waits_, [](auto const& one) { return !one.second.machine; });
}

/// While somebody waits for all, the loader has something to do: no machine that has failed or that floods makes him
/// wait for its time. A scan that fails comes again later, and not for ever.
void InfoWorld::check_progress() {
    if (is_loading_) return;
    for (auto const& [ticket, wait] : waits_) {
        if (!wait.machine && wait.failed_scans == 0) fail("a wait for all waits for nothing that is done");
    }
}

/// A machine begins again after a pause, unless somebody has asked for it, or for all.
void InfoWorld::check_pause(info::Job const& job) {
    if (!job.machine) return;
    auto const before = begun_.find(*job.machine);
    bool const is_awaited = asked_.erase(*job.machine) > 0 || is_all_awaited();
    if (before != begun_.end() && now_ < before->second + milliseconds(50) && !is_awaited)
        fail(*job.machine + " is read again too soon");
    begun_[*job.machine] = now_;
}

/// Of machines that were slow lately only two are looked at at once, and none right after a slow look, unless somebody
/// has asked for it.
void InfoWorld::begin_look(info::Job const& job) {
    auto const slow = slow_.find(*job.machine);
    bool const is_asked = asked_of_launcher_.erase(*job.machine) > 0;
    if (slow == slow_.end() || now_ >= slow->second + minutes(10)) return;
    bool const is_free = is_asked || quick_since_.contains(*job.machine);
    if (now_ < slow->second + seconds(5) && !is_free) fail(*job.machine + " has been slow and is looked at too soon");
    slow_looks_.insert(*job.machine);
    if (slow_looks_.size() > 2) fail("slow machines take the places of others");
}

void InfoWorld::end_look(info::Job const& job, Duration took) {
    --looks_;
    slow_looks_.erase(*job.machine);
    if (took < seconds(1)) {
        quick_since_.insert(*job.machine);
    } else {
        slow_[*job.machine] = now_;
        quick_since_.erase(*job.machine);
    }
}

void InfoWorld::check_bounds() {
    for (auto const& [ticket, wait] : waits_) {
        if (wait.failed_scans >= info::Agenda::most_failures) fail("a wait for all outlives its scans");
    }
    if (feed_.next() - feed_.first() > settings_.feed.events) fail("the feed has too many events");
    if (feed_.bytes() > settings_.feed.bytes && feed_.next() - feed_.first() > 1) fail("the feed is too large");
    if (places_.taken() > 2) fail("too many readers are in a snapshot");
    auto const queue = agenda_.queue();
    if (queue.targeted + queue.refresh + queue.delayed > settings_.machines) fail("a machine waits twice");
    if (queue.waiters != waits_.size()) fail("the agenda has forgotten somebody who waits");
}

void InfoWorld::check_end() {
    if (!waits_.empty()) fail(std::to_string(waits_.size()) + " wait without an answer");
    if (cache_.all().size() != host_.size()) fail("the cache has other machines than the host");
    for (auto const& [name, versions] : host_) {
        auto const document = cache_.find(name);
        if (!document || *document->text(info::View::full) != *document_of(name, versions)->text(info::View::full))
            fail("the cache has " + name + " otherwise than the host");
    }
    for (Subscriber const& subscriber : subscribers_) {
        if (subscriber.mirror.size() != cache_.all().size()) fail("a reader has other machines than the cache");
        for (auto const& [name, machine] : subscriber.mirror) {
            auto const document = cache_.find(name);
            json::Writer out;
            out.value(machine);
            if (!document || *document->text(subscriber.reader->options().view) != out.text())
                fail("a reader has " + name + " otherwise than the cache");
        }
    }
}

}  // namespace triton::simulation
