#include "programs/volumemgr/manager.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <set>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "host/volume/keep/uses.h"
#include "lib/json/text.h"

namespace triton::program {

namespace {

using namespace volume;

constexpr milliseconds stale_after{500};
constexpr std::size_t most_configs = 100'000;
constexpr milliseconds short_pause{2};
constexpr milliseconds long_pause{25};
constexpr std::size_t many_jobs = 16;
constexpr std::array<std::string_view, 6> config_kinds{"VolumeConfig",    "ContentTreeConfig", "VolumeRefConfig",
                                                       "DatastoreConfig", "CertObjConfig",     "VolumesSnapshotConfig"};

BootTime boot_now() {
    timespec now{};
    (void)::clock_gettime(CLOCK_BOOTTIME, &now);  // cannot fail
    return std::chrono::seconds(now.tv_sec) + std::chrono::duration_cast<milliseconds>(nanoseconds(now.tv_nsec));
}

/// Whether an error of this job is what a server said.
bool asks_a_server(Job::Kind kind) {
    return kind == Job::Kind::resolve || kind == Job::Kind::fetch || kind == Job::Kind::fetch_certificates;
}

/// What a job cannot do without. Content comes from anywhere; a container is unpacked into the pool.
std::optional<FileSystem> file_system_for(Order const& order) {
    switch (order.job.kind) {
        case Job::Kind::build:
        case Job::Kind::grow:
        case Job::Kind::destroy: return file_system_of(order.row && order.row->is_in_vault);
        case Job::Kind::fetch:
            if (order.tree && layout_of(order.tree->format) == Layout::directory) return FileSystem::clear;
            return std::nullopt;
        case Job::Kind::resolve:
        case Job::Kind::drop:
        case Job::Kind::fetch_certificates:
        case Job::Kind::drop_certificates: return std::nullopt;
        case Job::Kind::take_snapshot:
        case Job::Kind::roll_back:
        case Job::Kind::delete_snapshot:
            return file_system_of(std::ranges::any_of(order.volumes, &VolumeRow::is_in_vault));
    }
    std::unreachable();
}

std::string text_of(VolumeKey const& key) { return key.text(); }
std::string text_of(ReferenceKey const& key) { return key.text(); }
std::string text_of(HolderKey const& key) { return key.text(); }
std::string text_of(SnapshotKey const& key) { return key.text(); }
std::string text_of(std::string const& key) { return key; }

/// The kind and key of what the core forgets.
Manager::Name name_of_object(ObjectKey const& object) {
    constexpr std::array<std::string_view, 5> kinds{"VolumeConfig", "ContentTreeConfig", "VolumeRefConfig",
                                                    "CertObjConfig", "VolumesSnapshotConfig"};
    static_assert(kinds.size() == std::variant_size_v<ObjectKey>);
    return {std::string(kinds[object.index()]), std::visit([](auto const& key) { return text_of(key); }, object)};
}

}  // namespace

Manager::Manager(EventLoop& loop, log::Log& log, Settings settings, Board& board, Keeper& keeper, Workers& workers)
    : loop_(loop),
      log_(log),
      board_(board),
      keeper_(keeper),
      workers_(workers),
      core_(std::move(settings)),
      timer_(loop, [this] { feed(TimePassed{}); }),
      writing_(loop, [this] { keeper_.begin(); }),
      in_clear_{.trees = {loop, [this] { trees_are_unanswered(FileSystem::clear); }},
                .space = {loop, [this] { space_is_unanswered(FileSystem::clear); }}},
      in_vault_{.trees = {loop, [this] { trees_are_unanswered(FileSystem::vault); }},
                .space = {loop, [this] { space_is_unanswered(FileSystem::vault); }}} {}

Manager::~Manager() = default;

void Manager::begin(AllRows rows, std::function<void()> begun) {
    Loaded loaded{
        .volumes = std::move(rows.volumes), .trees = std::move(rows.trees), .snapshots = std::move(rows.snapshots)};
    for (Config& config : rows.configs) {
        struct Keep {
            Loaded& into;
            void operator()(VolumeConfig const& one) const { into.objects.emplace_back(one); }
            void operator()(TreeConfig const& one) const { into.objects.emplace_back(one); }
            void operator()(ReferenceConfig const& one) const { into.objects.emplace_back(one); }
            void operator()(DatastoreConfig const& /*one*/) const {}
            void operator()(CertificatesConfig const& one) const { into.objects.emplace_back(one); }
            void operator()(SnapshotConfig const& one) const { into.objects.emplace_back(one); }
        };
        std::visit(Keep{loaded}, config);
        std::string key = key_of(config);
        configs_[std::string(kind_of(config))].insert_or_assign(std::move(key), std::move(config));
        ++config_count_;
    }
    beginning_.emplace(std::move(loaded), std::move(rows.blobs), std::move(begun));
    // They are beside the database, on no file system that may be missing.
    auto task = [this](Result<Workbench>& bench) -> std::function<void()> {
        auto holders = bench ? bench->look_at_certificates() : std::unexpected(bench.error());
        return [this, holders = std::move(holders)] {
            if (holders) beginning_->holders = *holders;
            look_at_trees(FileSystem::clear);
            look_at_trees(FileSystem::vault);
        };
    };
    workers_.run({}, std::move(task));
}

/// A vault that does not answer must not keep everything else waiting, nor a pool the vault.
void Manager::begin_if_all_answered() {
    if (!beginning_ || in_clear_.trees.is_awaited() || in_vault_.trees.is_awaited()) return;
    Beginning const beginning = *std::exchange(beginning_, std::nullopt);
    has_begun_ = true;
    feed(beginning.loaded);
    for (auto const& [content, blobs] : beginning.blobs)
        blobs_.set(content, blobs);
    for (TreesSeen const& seen : beginning.seen)
        feed(seen);
    feed(CertificatesSeen{beginning.holders});
    // What was published before is all that they have: it is durable.
    for (char const* const publisher : {"vmadm", "base", "admin"})
        feed(PublisherComplete{publisher});
    look_at_space();
    beginning.begun();
}

// --- what others ask for

Result<> Manager::check(Config const& config) const {
    std::string const kind(kind_of(config));
    Config const* const there = find(kind, key_of(config));
    if (there && publisher_of(*there) != publisher_of(config))
        return fail(ErrorKind::exists,
                    kind + " " + key_of(config) + " is published by " + json::shown(publisher_of(*there)));
    if (!there && config_count_ >= most_configs)
        return fail(ErrorKind::exhausted, "there are " + std::to_string(config_count_) + " objects already");
    if (auto const* const reference = std::get_if<ReferenceConfig>(&config)) return check_reference(*reference);
    return {};
}

/// Two that write one file would destroy it.
Result<> Manager::check_reference(ReferenceConfig const& config) const {
    VolumeConfig const* const volume = core_.config(config.key.volume);
    VolumeRow const* const row = core_.row(config.key.volume);
    bool const is_file = row ? layout_of(row->format) == Layout::file : volume && volume->layout == Layout::file;
    if (!is_file || (volume && volume->is_read_only)) return {};
    for (ReferenceConfig const& other : core_.references_to(config.key.volume)) {
        if (other.key.user != config.key.user && !(config.is_read_only && other.is_read_only))
            return fail(ErrorKind::refused, "volume " + config.key.volume.text() + " is a file that " +
                                                shown_user(other) + " writes; a second user needs it read-only");
    }
    return {};
}

void Manager::follow_machines(std::function<void()> then) {
    keeper_.read_machine_references([this, then = std::move(then)](Result<std::vector<ReferenceConfig>> const& found) {
        take_over(found);
        if (then) then();
    });
}

void Manager::take_over(Result<std::vector<ReferenceConfig>> const& found) {
    if (!found) return log_.write(log::LogLevel::error, "no-references", found.error().text());
    std::string const kind(config_kinds[2]);
    std::set<std::string> keys;
    for (ReferenceConfig const& one : *found) {
        keys.insert(one.key.text());
        Config const* const known = find(kind, one.key.text());
        if (!known || std::get<ReferenceConfig>(*known) != one) tell_core(one);
    }
    std::vector<Name> gone;
    for (auto const& [key, config] : configs_[kind])
        if (publisher_of(config) == machine_publisher && !keys.contains(key)) gone.push_back({kind, key});
    for (Name const& name : gone)
        forget(name);
}

bool Manager::has_machine(VolumeKey const& key) const {
    return std::ranges::any_of(core_.references_to(key),
                               [](ReferenceConfig const& one) { return one.publisher == machine_publisher; });
}

void Manager::put(std::vector<Config> configs, Done done) {
    bool const meets_machines = std::ranges::any_of(configs, [this](Config const& config) {
        auto const* const reference = std::get_if<ReferenceConfig>(&config);
        return reference && has_machine(reference->key.volume);
    });
    if (!meets_machines) return put_now(std::move(configs), std::move(done));
    follow_machines([this, configs = std::move(configs), done = std::move(done)] { put_now(configs, done); });
}

void Manager::put_now(std::vector<Config> configs, Done done) {
    std::map<VolumeKey, std::string> users;  // within this call
    for (Config const& config : configs) {
        auto checked = check(config);
        auto const* const reference = std::get_if<ReferenceConfig>(&config);
        if (checked && reference) {
            auto const [other, is_first] = users.try_emplace(reference->key.volume, reference->key.user);
            VolumeConfig const* const volume = core_.config(reference->key.volume);
            if (!is_first && other->second != reference->key.user && volume && volume->layout == Layout::file &&
                !volume->is_read_only)
                checked = fail(ErrorKind::refused,
                               "volume " + reference->key.volume.text() + " is a file, which only one can write");
        }
        if (!checked) return done(checked);
    }
    bool const needs_room = std::ranges::any_of(configs, [](Config const& config) {
        auto const* const volume = std::get_if<VolumeConfig>(&config);
        auto const* const tree = std::get_if<TreeConfig>(&config);
        return (volume && volume->most_bytes > 0) || (tree && tree->most_bytes > 0);
    });
    std::vector<Change> changes(configs.begin(), configs.end());
    keeper_.write(std::move(changes),
                  [this, needs_room, configs = std::move(configs), done = std::move(done)](Result<> const& written) {
                      if (!written) return done(written);
                      auto tell = [this, configs, done] {
                          for (Config const& config : configs)
                              tell_core(config);
                          done({});
                      };
                      // Others use the disk, too: what was free a while ago is not promised.
                      bool const is_stale = !looked_at_ || loop_.now() > *looked_at_ + stale_after;
                      if (needs_room && is_stale) return look_at_space(std::move(tell));
                      tell();
                  });
}

void Manager::tell_core(Config const& config) {
    auto const [place, is_new] = configs_[std::string(kind_of(config))].insert_or_assign(key_of(config), config);
    if (is_new) ++config_count_;
    struct Tell {
        Manager& manager;
        void operator()(VolumeConfig const& one) const { manager.feed(Put{one}); }
        void operator()(TreeConfig const& one) const { manager.feed(Put{one}); }
        void operator()(ReferenceConfig const& one) const {
            manager.feed(Put{one});
            manager.publish_references(one.key.volume);
        }
        // Content that has waited for it, or failed because of how it was, is tried again.
        void operator()(DatastoreConfig const& /*one*/) const { manager.feed(RetryAsked{}); }
        void operator()(CertificatesConfig const& one) const { manager.feed(Put{one}); }
        void operator()(SnapshotConfig const& one) const { manager.feed(Put{one}); }
    };
    std::visit(Tell{*this}, config);
}

Result<> Manager::check_removal(std::string const& publisher, Name const& name) const {
    if (std::ranges::find(config_kinds, name.kind) == config_kinds.end())
        return fail("there are no objects of kind " + json::shown(name.kind));
    Config const* const config = find(name.kind, name.key);
    if (config && publisher_of(*config) != publisher)
        return fail(ErrorKind::refused,
                    name.kind + " " + name.key + " is published by " + json::shown(publisher_of(*config)));
    auto const* const volume = config ? std::get_if<VolumeConfig>(config) : nullptr;
    if (!volume) return {};
    auto const users = core_.references_to(volume->key);
    if (users.empty()) return {};
    std::string text = "volume " + name.key + " is used by " + shown_user(users.front());
    if (users.size() > 1) text += " and " + std::to_string(users.size() - 1) + " more";
    return fail(ErrorKind::busy, text);
}

void Manager::remove(std::string const& publisher, std::vector<Name> const& names, Done done) {
    bool const meets_machines = std::ranges::any_of(names, [this](Name const& name) {
        auto const key = name.kind == config_kinds[0] ? VolumeKey::parse(name.key) : std::nullopt;
        return key && has_machine(*key);
    });
    if (!meets_machines) return remove_now(publisher, names, std::move(done));
    follow_machines([this, publisher, names, done = std::move(done)] { remove_now(publisher, names, done); });
}

void Manager::remove_now(std::string const& publisher, std::vector<Name> const& names, Done done) {
    std::vector<Change> changes;
    for (Name const& name : names) {
        auto checked = check_removal(publisher, name);
        if (!checked) return done(checked);
        if (!find(name.kind, name.key)) continue;
        changes.emplace_back(EraseConfig{name.kind, name.key});
        // In the same step, so that a crash after it leaves no volume that waits for its grace.
        auto const key = name.kind == config_kinds[0] ? VolumeKey::parse(name.key) : std::nullopt;
        VolumeRow const* const row = key ? core_.row(*key) : nullptr;
        if (!row || row->stage != VolumeRow::Stage::made) continue;
        VolumeRow deleting = *row;
        deleting.stage = VolumeRow::Stage::deleting;
        changes.emplace_back(std::move(deleting));
    }
    if (changes.empty()) return done({});
    keeper_.write(std::move(changes), [this, names, done = std::move(done)](Result<> const& written) {
        if (written) {
            for (Name const& name : names)
                forget(name);
        }
        done(written);
    });
}

void Manager::forget(Name const& name) {
    auto const kind = configs_.find(name.kind);
    if (kind == configs_.end()) return;
    auto const found = kind->second.find(name.key);
    if (found == kind->second.end()) return;
    Config const config = std::move(found->second);
    kind->second.erase(found);
    --config_count_;
    if (auto const* const volume = std::get_if<VolumeConfig>(&config)) feed(Removed{volume->key});
    if (auto const* const tree = std::get_if<TreeConfig>(&config)) feed(Removed{tree->id});
    if (auto const* const certificates = std::get_if<CertificatesConfig>(&config)) feed(Removed{certificates->key});
    if (auto const* const snapshot = std::get_if<SnapshotConfig>(&config)) feed(Removed{snapshot->key});
    if (auto const* const reference = std::get_if<ReferenceConfig>(&config)) {
        feed(Removed{reference->key});
        board_.remove("VolumeRefStatus", reference->key.text());
    }
}

Result<VolumeRow> Manager::made_row(std::string const& key) const {
    auto const parsed = VolumeKey::parse(key);
    VolumeRow const* const row = parsed ? core_.row(*parsed) : nullptr;
    if (!row) return fail(ErrorKind::not_found, "there is no volume " + json::shown(key));
    if (row->stage != VolumeRow::Stage::made)
        return fail(ErrorKind::refused, "volume " + key + " is being made or removed");
    return *row;
}

void Manager::act_on_snapshot(std::string const& key, SnapshotAct act, std::string const& name, Done done) {
    auto const parsed = VolumeKey::parse(key);
    if (act != SnapshotAct::rollback || !parsed || !has_machine(*parsed))
        return act_on_snapshot_now(key, act, name, std::move(done));
    follow_machines([this, key, act, name, done = std::move(done)] { act_on_snapshot_now(key, act, name, done); });
}

void Manager::act_on_snapshot_now(std::string const& key, SnapshotAct act, std::string const& name, Done done) {
    auto const row = made_row(key);
    if (!row) return done(std::unexpected(row.error()));
    auto const users = core_.references_to(row->key);
    if (act == SnapshotAct::rollback && !users.empty())
        return done(fail(ErrorKind::refused, "volume " + key + " is used by " + shown_user(users.front()) +
                                                 "; a rollback would change it under its hands"));
    ++acts_;
    workers_.run(
        file_system_of(row->is_in_vault),
        [this, row = *row, act, name, done = std::move(done)](Result<Workbench>& bench) -> std::function<void()> {
            Result<> acted;
            if (!bench)
                acted = std::unexpected(bench.error());
            else if (act == SnapshotAct::make)
                acted = bench->snapshot(row, name);
            else
                acted = act == SnapshotAct::rollback ? bench->rollback(row, name) : bench->delete_snapshot(row, name);
            return [this, acted, done] {
                --acts_;
                done(acted);
            };
        });
}

void Manager::list_snapshots(std::string const& key, GotSnapshots got) {
    auto const row = made_row(key);
    if (!row) return got(std::unexpected(row.error()));
    workers_.run(file_system_of(row->is_in_vault),
                 [row = *row, got = std::move(got)](Result<Workbench>& bench) -> std::function<void()> {
                     auto all = bench ? bench->snapshots(row) : std::unexpected(bench.error());
                     return [all = std::move(all), got] { got(all); };
                 });
}

void Manager::scrub(GotScrub got) {
    if (std::exchange(is_scrubbing_, true)) return got(fail(ErrorKind::busy, "a scrub is under way"));
    auto task = [this, rows = core_.made(), got = std::move(got)](Result<Workbench>& bench) -> std::function<void()> {
        auto found = bench ? bench->scrub(rows, [this] { workers_.tell([] {}); }) : std::unexpected(bench.error());
        std::map<FileSystem, std::set<VolumeKey>> trees;
        for (FileSystem const file_system : {FileSystem::clear, FileSystem::vault}) {
            bool const is_vault = file_system == FileSystem::vault;
            auto seen = bench ? bench->look_at_trees(is_vault) : std::unexpected(bench.error());
            if (seen && (!is_vault || seen->vault.is_unlocked)) trees[file_system] = std::move(seen->volumes);
        }
        return [this, found = std::move(found), trees = std::move(trees), got] {
            is_scrubbing_ = false;
            for (auto const& [file_system, volumes] : trees)
                feed(TreesSeen{volumes, {file_system}});
            if (!found) return got(std::unexpected(found.error()));
            Scrubbed scrubbed{.found = *found, .fetched_again = {}};
            std::set<std::string> lost;
            for (Workbench::BadBlob const& blob : found->bad) {
                for (content::Owner const& owner : blob.owners) {
                    for (std::string const& content : core_.contents_of(owner.kind, owner.id))
                        lost.insert(content);
                    if (auto const holder = holder_of(owner)) feed(CertificatesLost{*holder});
                }
            }
            for (std::string const& content : lost) {
                log_.write(log::LogLevel::warning, "content-bad",
                           "content tree " + content + " is bad; it is fetched again");
                feed(ContentLost{content});
                scrubbed.fetched_again.push_back(content);
            }
            got(scrubbed);
        };
    };
    workers_.run({}, std::move(task));
}

void Manager::restart(std::string const& publisher) { feed(PublisherRestarted{publisher}); }
void Manager::complete(std::string const& publisher) { feed(PublisherComplete{publisher}); }
void Manager::retry() { feed(RetryAsked{}); }

void Manager::set_maintenance(bool is_on) {
    is_in_maintenance_ = is_on;
    feed(MaintenanceSet{is_on});
}

std::vector<Unclaimed> Manager::collect(bool is_dry_run) {
    std::vector<Unclaimed> all;
    for (Core::Unclaimed const& one : core_.unclaimed())
        all.push_back({one.key.text(), one.reason, one.is_collectable});
    if (!is_dry_run) feed(CollectAsked{});
    return all;
}

std::vector<std::string> Manager::why(std::string_view kind, std::string const& key) const {
    if (kind == config_kinds[1]) return core_.why(key);
    if (kind == config_kinds[4]) {
        auto const holder = HolderKey::parse(key);
        return holder ? core_.why(*holder) : std::vector<std::string>{json::shown(key) + " is no UUID"};
    }
    if (kind == config_kinds[5]) {
        auto const snapshot = SnapshotKey::parse(key);
        return snapshot ? core_.why(*snapshot) : std::vector<std::string>{json::shown(key) + " is no SnapshotID"};
    }
    auto const parsed = VolumeKey::parse(key);
    if (!parsed) return {json::shown(key) + " is no volume: expected UUID#GENERATION"};
    return core_.why(*parsed);
}

Config const* Manager::find(std::string const& kind, std::string const& key) const {
    auto const of_kind = configs_.find(kind);
    if (of_kind == configs_.end()) return nullptr;
    auto const found = of_kind->second.find(key);
    return found == of_kind->second.end() ? nullptr : &found->second;
}

bool Manager::is_settled() const {
    return has_begun_ && acts_ == 0 && !is_scrubbing_ && !is_in_maintenance_ && core_.is_settled() && keeper_.is_idle();
}

/// While several jobs run, what one of them has to say waits a moment for the others: a transaction costs three fsyncs
/// however many rows it has.
void Manager::end_round() {
    publish_blobs();
    if (keeper_.is_idle() || writing_.is_armed()) return;
    if (running_.size() < 2) return keeper_.begin();
    writing_.arm(loop_.now() + (running_.size() < many_jobs ? short_pause : long_pause));
}

// --- the core

void Manager::feed(Event const& event) {
    core_.on(event, boot_now());
    // An action may feed the core again; then it performs what follows from that.
    for (Action const& action : core_.take())
        perform(action);
    auto const next = core_.next();
    timer_.arm(next ? std::optional(steady_now() + std::max(BootTime(0), *next - boot_now())) : std::nullopt);
}

void Manager::perform(Action const& action) {
    struct Perform {
        Manager& manager;
        void operator()(Save const& save) const { manager.perform_save(save); }
        void operator()(Forget const& one) const {
            Name const name = name_of_object(one.object);
            manager.forget(name);
            manager.keeper_.write({EraseConfig{name.kind, name.key}}, [](Result<> const&) {});
        }
        void operator()(StartJob const& one) const { manager.start(one); }
        void operator()(CancelJob const& one) const {
            auto const found = manager.running_.find(one.id);
            if (found == manager.running_.end()) return;
            std::uint64_t const signal = 1;
            (void)!::write(found->second.cancel.get(), &signal, sizeof signal);
            found->second.is_cancelled = true;
        }
        void operator()(PublishVolume const& one) const { manager.publish(one.status); }
        void operator()(PublishTree const& one) const { manager.publish(one.status); }
        void operator()(UnpublishVolume const& one) const {
            manager.board_.remove("VolumeStatus", one.key.text());
            manager.board_.remove("AppDiskMetric", one.key.text());
        }
        void operator()(UnpublishTree const& one) const {
            manager.board_.remove("ContentTreeStatus", one.id);
            manager.blobs_.forget(one.id);
        }
        void operator()(PublishCertificates const& one) const {
            json::Writer out;
            write_status(out, one.status, manager.core_.config(one.status.key));
            manager.board_.publish("CertObjStatus", one.status.key.text(), std::move(out).text());
        }
        void operator()(PublishSnapshot const& one) const {
            json::Writer out;
            write_status(out, one.status);
            manager.board_.publish("VolumesSnapshotStatus", one.status.key.text(), std::move(out).text());
        }
        void operator()(UnpublishSnapshot const& one) const {
            manager.board_.remove("VolumesSnapshotStatus", one.key.text());
        }
        void operator()(UnpublishCertificates const& one) const {
            manager.board_.remove("CertObjStatus", one.key.text());
        }
        void operator()(LookAtSpace const& /*one*/) const { manager.look_at_space(); }
        void operator()(LookAtVault const& /*one*/) const { manager.look_at_trees(FileSystem::vault); }
    };
    std::visit(Perform{*this}, action);
}

void Manager::perform_save(Save const& save) {
    struct Make {
        std::uint64_t device;
        std::uint64_t vault_device;
        std::vector<Change> operator()(VolumeRow const& row) const {
            if (row.stage == VolumeRow::Stage::deleting) return {row};
            return {row, SetPromise{row.key, row.is_in_vault ? vault_device : device, row.bytes}};
        }
        std::vector<Change> operator()(TreeRow const& row) const { return {row}; }
        std::vector<Change> operator()(SnapshotRow const& row) const { return {row}; }
        std::vector<Change> operator()(Save::EraseVolume const& one) const { return {one}; }
        std::vector<Change> operator()(Save::EraseTree const& one) const { return {one}; }
        std::vector<Change> operator()(Save::EraseSnapshot const& one) const { return {one}; }
    };
    SaveId const id = save.id;
    keeper_.write(std::visit(Make{in_clear_.device, in_vault_.device}, save.change),
                  [this, id](Result<> const& written) {
                      if (written) return feed(Saved{id});
                      log_.write(log::LogLevel::error, "not-saved", written.error().text());
                      feed(SaveFailed{id, {class_of(written.error().kind, false), written.error().text()}});
                  });
}

Order Manager::order_of(Job const& job) const {
    Order order{.job = job};
    if (VolumeRow const* const row = core_.row(job.volume)) order.row = *row;
    if (VolumeConfig const* const config = core_.config(job.volume)) order.config = *config;
    if (order.config && order.config->source) {
        if (VolumeRow const* const source = core_.row(*order.config->source)) order.source = *source;
    }
    std::string const content = !job.content.empty() ? job.content : order.row ? order.row->content : "";
    if (TreeConfig const* const tree = core_.config(content)) order.tree = *tree;
    if (TreeRow const* const row = core_.row(content)) order.tree_row = *row;
    bool const is_of_holder = job.kind == Job::Kind::fetch_certificates || job.kind == Job::Kind::drop_certificates;
    auto const holder = is_of_holder                          ? std::optional(job.holder)
                        : order.tree && order.tree->signature ? order.tree->signature->holder
                                                              : std::nullopt;
    CertificatesConfig const* const certificates = holder ? core_.config(*holder) : nullptr;
    if (certificates) order.certificates = *certificates;
    if (SnapshotRow const* const snapshot = core_.row(job.snapshot)) {
        for (VolumeKey const& key : snapshot->volumes) {
            VolumeRow const* const row = core_.row(key);
            if (row && row->stage == VolumeRow::Stage::made) order.volumes.push_back(*row);
        }
    }
    std::vector<Uuid> const none;
    for (Uuid const& id : order.tree ? order.tree->datastores : certificates ? certificates->datastores : none) {
        if (Config const* const config = find("DatastoreConfig", id.text()))
            order.datastores.push_back(std::get<DatastoreConfig>(*config));
    }
    return order;
}

void Manager::start(StartJob const& start) {
    Running& running = running_[start.id];
    running.kind = start.job.kind;
    running.content = start.job.content;
    if (VolumeRow const* const row = core_.row(start.job.volume)) running.content = row->content;
    running.cancel = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    JobId const id = start.id;
    auto order = std::make_shared<Order>(order_of(start.job));
    order->cancel = running.cancel.get();
    order->progress = [this, id](JobProgress progress) {
        progress.job = id;
        workers_.tell([this, progress] { feed(progress); });
    };
    order->blob = [this, content = running.content](BlobStatus const& blob) {
        workers_.tell([this, content, blob] { blobs_.note(content, blob); });
    };
    workers_.run(file_system_for(*order), [this, id, order](Result<Workbench>& bench) -> std::function<void()> {
        auto answer = bench ? bench->run(*order) : std::unexpected(bench.error());
        return [this, id, answer = std::move(answer)] { finish(id, answer); };
    });
}

void Manager::finish(JobId id, Result<Answer> const& answer) {
    auto const node = running_.extract(id);
    if (node.empty()) return;
    Running const& running = node.mapped();
    if (answer && answer->is_content_lost) {
        std::string const text =
            "content tree " + running.content + " is not in the store any more; it is fetched again";
        log_.write(log::LogLevel::warning, "content-lost", text);
        feed(JobFailed{id, {FailureClass::transient, text}});
        return feed(ContentLost{running.content});
    }
    if (answer && !answer->vault_problem.empty()) {
        see_vault({false, answer->vault_problem});
        return feed(JobFailed{id, {FailureClass::vault, answer->vault_problem}});
    }
    if (answer && !answer->blobs.empty()) blobs_.set(running.content, answer->blobs);
    if (answer)
        return feed(JobDone{.job = id,
                            .digest = answer->digest,
                            .bytes = answer->bytes,
                            .image = answer->image,
                            .signed_by = answer->signed_by,
                            .taken = answer->taken});
    if (running.is_cancelled) return feed(JobCancelled{id});
    Failure failure{class_of(answer.error().kind, asks_a_server(running.kind)), answer.error().text()};
    log_.write(log::LogLevel::warning, "job-failed", std::string(name_of(running.kind)) + ": " + answer.error().text());
    feed(JobFailed{id, std::move(failure)});
    if (answer.error().kind == ErrorKind::exhausted) look_at_space();
}

// --- looks at file systems

void Manager::look_at_space(std::function<void()> then) {
    if (then) when_seen_.push_back(std::move(then));
    look_at_space_of(FileSystem::clear);
    if (workers_.has_vault()) look_at_space_of(FileSystem::vault);
    call_those_who_wait_for_space();
}

void Manager::look_at_space_of(FileSystem file_system) {
    if (!at(file_system).space.begin()) return;
    bool const is_vault = file_system == FileSystem::vault;
    std::vector<VolumeRow> rows;
    for (auto const& [key, config] : configs_["VolumeConfig"]) {
        VolumeRow const* const row = core_.row(std::get<VolumeConfig>(config).key);
        if (row && row->stage == VolumeRow::Stage::made && row->bytes > 0 && row->is_in_vault == is_vault)
            rows.push_back(*row);
    }
    workers_.run(
        file_system,
        [this, file_system, is_vault, rows = std::move(rows)](Result<Workbench>& bench) -> std::function<void()> {
            SpaceFound found;
            found.seen.looked_at = {file_system};
            found.device = bench ? bench->device(is_vault).value_or(0) : 0;
            auto const space = bench ? bench->space(is_vault) : std::unexpected(bench.error());
            if (space) found.seen.free[file_system] = space->free;
            if (!space) found.problem = std::unexpected(space.error());
            for (VolumeRow const& row : rows) {
                auto const used = bench ? bench->usage(row) : std::unexpected(bench.error());
                if (!used) continue;
                found.seen.used[row.key] = *used;
                found.metrics.push_back({row, bench->link_path(row), *used});
                found.written.emplace_back(SetWritten{row.key, found.device, *used});
            }
            return [this, file_system, found = std::move(found)] { see_space(file_system, found); };
        });
}

void Manager::see_space(FileSystem file_system, SpaceFound found) {
    at(file_system).space.end();
    if (found.device != 0) at(file_system).device = found.device;
    if (in_vault_.device != 0) found.seen.is_one_file_system = in_vault_.device == in_clear_.device;
    if (!found.written.empty()) keeper_.write(std::move(found.written), [](Result<> const&) {});
    if (file_system == FileSystem::clear) {
        json::Writer out;
        out.open('{').member("Initialized", found.problem.has_value());
        out.member("RemainingSpace", found.seen.free.contains(file_system) ? found.seen.free.at(file_system) : 0);
        out.member("StuckWorkers", workers_.stuck());
        out.member("UnmetCondition", found.problem ? std::string() : found.problem.error().text()).close('}');
        board_.publish("VolumeMgrStatus", "volumemgr", std::move(out).text());
        looked_at_ = loop_.now();
    }
    feed(found.seen);
    for (Metric const& metric : found.metrics)
        if (core_.row(metric.row.key)) publish(metric);
    call_those_who_wait_for_space();
}

/// What needs room says that it does not know how much there is.
void Manager::space_is_unanswered(FileSystem file_system) {
    SpaceSeen unknown;
    unknown.looked_at = {file_system};
    feed(unknown);
    call_those_who_wait_for_space();
}

void Manager::call_those_who_wait_for_space() {
    if (in_clear_.space.is_awaited() || in_vault_.space.is_awaited()) return;
    for (auto const& call : std::exchange(when_seen_, {}))
        call();
}

/// When the vault is unlocked, its volumes are looked for, too, and what it has free is known.
void Manager::look_at_trees(FileSystem file_system) {
    if (!at(file_system).trees.begin()) return;
    bool const is_vault = file_system == FileSystem::vault;
    bool const is_start = beginning_.has_value();
    std::vector<VolumeRow> made;
    for (VolumeRow const& row : is_start ? beginning_->loaded.volumes : std::vector<VolumeRow>())
        if (row.is_in_vault == is_vault && row.stage == VolumeRow::Stage::made) made.push_back(row);
    auto task = [this, file_system, is_vault, is_start,
                 made = std::move(made)](Result<Workbench>& bench) -> std::function<void()> {
        auto found = bench ? bench->look_at_trees(is_vault) : std::unexpected(bench.error());
        if (bench && is_start) {
            // What cannot be repaired now is repaired the next time.
            (void)bench->recover(is_vault);
            (void)bench->forget_own_snapshots(made);
            bench->repair_links(is_vault, made);
        }
        std::uint64_t const device = bench ? bench->device(is_vault).value_or(0) : 0;
        return [this, file_system, found = std::move(found), device] {
            at(file_system).trees.end();
            if (device != 0) at(file_system).device = device;
            see_trees(file_system, found);
            begin_if_all_answered();
        };
    };
    workers_.run(file_system, std::move(task));
}

void Manager::see_trees(FileSystem file_system, Result<Workbench::Found> const& found) {
    bool const is_vault = file_system == FileSystem::vault;
    bool const was_unlocked = vault_problem_.empty();
    if (!found) return log_.write(log::LogLevel::error, is_vault ? "no-vault" : "no-pool", found.error().text());
    if (is_vault) see_vault(found->vault);
    if (is_vault && (!found->vault.is_unlocked || was_unlocked)) return;
    for (std::string const& name : found->foreign)
        log_.write(log::LogLevel::warning, "foreign-tree", "is not of a volume: " + name);
    TreesSeen seen{found->volumes, {file_system}};
    if (beginning_) return beginning_->seen.push_back(std::move(seen));
    if (is_vault) log_.write(log::LogLevel::info, "vault", "it is unlocked");
    feed(seen);
    look_at_space();
}

void Manager::trees_are_unanswered(FileSystem file_system) {
    bool const is_vault = file_system == FileSystem::vault;
    log_.write(log::LogLevel::warning, "no-answer",
               is_vault ? "the vault does not answer" : "the pool does not answer");
    if (is_vault) see_vault({false, "the vault does not answer"});
    begin_if_all_answered();
}

void Manager::see_vault(VaultState const& state) {
    bool const is_other = std::exchange(vault_problem_, state.reason) != state.reason;
    if (is_other && !state.is_unlocked) log_.write(log::LogLevel::info, "vault", state.reason);
    feed(VaultSeen{state.is_unlocked, state.reason});
}

void Manager::publish(VolumeStatus const& status) {
    json::Writer out;
    VolumeConfig const* const config = core_.config(status.key);
    VolumeRow const* const row = core_.row(status.key);
    std::string const& content = row ? row->content : config ? config->content : std::string();
    write_status(out, status, config, row, blobs_.of(content));
    board_.publish("VolumeStatus", status.key.text(), std::move(out).text());
    publish_references(status.key);
}

void Manager::publish(TreeStatus const& status) {
    TreeConfig const* const config = core_.config(status.id);
    json::Writer out;
    write_status(out, status, config);
    board_.publish("ContentTreeStatus", status.id, std::move(out).text());
    bool const is_whole = config && layout_of(config->format) == Layout::file;
    blobs_.follow(status, config ? config->name : "", is_whole);
}

/// What has changed of blobs in this round, and the volumes that are made of them.
void Manager::publish_blobs() {
    for (std::string const& digest : blobs_.take_changed()) {
        std::string const key = digest.substr(digest.find(':') + 1);
        auto const blob = blobs_.find(digest);
        auto const show = [&](std::string_view kind, bool is_there, auto const& write) {
            if (!is_there) return board_.remove(kind, key);
            json::Writer out;
            write(out);
            board_.publish(kind, key, std::move(out).text());
        };
        show("BlobStatus", blob.has_value(), [&](json::Writer& out) { write_status(out, *blob); });
        show("DownloaderStatus", blob && is_downloaded(*blob), [&](json::Writer& out) { write_download(out, *blob); });
        show("VerifyImageStatus", blob && is_verified(*blob),
             [&](json::Writer& out) { write_verification(out, *blob); });
    }
    for (std::string const& content : blobs_.take_changed_contents())
        for (VolumeKey const& key : core_.volumes_of(content))
            if (auto const status = core_.status(key)) publish(*status);
}

void Manager::publish(Metric const& metric) {
    VolumeRow const& row = metric.row;
    json::Writer out;
    out.open('{').member("VolumeID", row.key.id.text()).member("GenerationCounter", row.key.generation);
    out.member("DiskPath", metric.path).member("DiskType", name_of(row.format));
    out.member("ProvisionedBytes", row.bytes).member("UsedBytes", metric.used).close('}');
    board_.publish("AppDiskMetric", row.key.text(), std::move(out).text());
}

void Manager::publish_references(VolumeKey const& key) {
    auto const status = core_.status(key);
    if (!status) return;
    for (std::string const& user : core_.users_of(key)) {
        json::Writer out;
        out.open('{').member("VolumeID", key.id.text()).member("GenerationCounter", key.generation);
        out.member("AppUUID", user).member("State", name_of(status->state));
        out.member("SubState", name_of(status->sub_state)).member("MaxVolSize", status->most_bytes).close('}');
        board_.publish("VolumeRefStatus", ReferenceKey{key, user}.text(), std::move(out).text());
    }
}

}  // namespace triton::program
