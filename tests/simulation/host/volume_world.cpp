#include "tests/simulation/host/volume_world.h"

#include <algorithm>
#include <array>
#include <utility>

namespace triton::simulation {

namespace {

using volume::Job;
using volume::VolumeKey;
using volume::VolumeRow;

constexpr std::array<std::string_view, 3> publishers{"admin", "vmadm", "files"};
constexpr std::array<std::string_view, 4> contents{"alpine", "debian", "data", "tools"};
constexpr std::uint64_t gib = 1ULL << 30;
constexpr std::size_t most_ids = 6;

VolumeKey key_of(std::uint64_t number, std::uint64_t generation) {
    Uuid::Bytes bytes{};
    bytes[15] = static_cast<std::uint8_t>(number);
    return {Uuid::of_bytes(bytes, 4), generation};
}

volume::HolderKey holder_of(std::uint64_t number) { return {key_of(100 + number, 0).id}; }

template <class Key>
std::string text_of(Key const& key) {
    if constexpr (std::is_same_v<Key, std::string>)
        return key;
    else
        return key.text();
}

}  // namespace

VolumeWorld::VolumeWorld(std::uint64_t seed) : random_(seed) {
    settings_.publishers.assign(publishers.begin(), publishers.end());
    settings_.keep_content_for = random_.one_in(2) ? volume::BootTime(0) : volume::BootTime(std::chrono::seconds(90));
    start_manager();
}

void VolumeWorld::fail(std::string text) {
    if (problem_.empty()) problem_ = std::move(text);
}

// --- users ---

volume::VolumeConfig VolumeWorld::any_volume() {
    volume::VolumeConfig config{.key = key_of(random_.below(most_ids), random_.below(2))};
    config.publisher = random_.pick(publishers);
    config.most_bytes = (1 + random_.below(24)) * gib;
    config.is_encrypted = random_.one_in(4);
    switch (random_.below(4)) {
        case 0:
            config.origin = volume::Origin::download;
            config.content = random_.pick(contents);
            break;
        case 1:
            config.origin = volume::Origin::clone;
            config.source = key_of(random_.below(most_ids), random_.below(2));
            break;
        default: break;
    }
    return config;
}

volume::TreeConfig VolumeWorld::any_tree() {
    volume::TreeConfig tree{.id = std::string(random_.pick(contents))};
    tree.publisher = random_.pick(publishers);
    tree.name = tree.id;
    if (random_.one_in(3)) tree.digest = "sha256:" + std::to_string(random_.below(2));
    tree.most_bytes = (1 + random_.below(4)) * gib;
    using Kind = volume::SignatureConfig::Kind;
    if (random_.one_in(3))
        tree.signature = volume::SignatureConfig{.kind = Kind::cms, .holder = holder_of(random_.below(2))};
    else if (random_.one_in(3))
        tree.signature =
            volume::SignatureConfig{.kind = Kind::minisign, .keys = "/keys/" + std::to_string(random_.below(2))};
    return tree;
}

volume::SnapshotConfig VolumeWorld::any_snapshot() {
    volume::SnapshotConfig config{.key = {"s" + std::to_string(random_.below(3))}};
    config.publisher = random_.pick(publishers);
    config.volumes = {key_of(random_.below(most_ids), 0)};
    if (random_.one_in(2)) config.volumes.push_back(key_of(random_.below(most_ids), 1));
    // Mostly a rollback to what there is.
    if (auto const old = snapshots_.find(config.key); old != snapshots_.end() && !random_.one_in(4)) {
        config = old->second;
        ++config.rollbacks;
    }
    return config;
}

void VolumeWorld::publish_something() {
    auto const put = [this](auto& all, auto const& key, auto object) {
        // One publisher owns an object: another one's is not overwritten.
        if (auto const old = all.find(key); old != all.end()) object.publisher = old->second.publisher;
        all.insert_or_assign(key, object);
        if (core_) send(volume::Put{object});
    };
    switch (random_.below(6)) {
        case 5: {
            auto const snapshot = any_snapshot();
            return put(snapshots_, snapshot.key, snapshot);
        }
        case 0: {
            auto const tree = any_tree();
            return put(trees_, tree.id, tree);
        }
        case 2: {
            volume::CertificatesConfig holder{.key = holder_of(random_.below(2))};
            holder.publisher = random_.pick(publishers);
            holder.certificates = {{"leaf.pem", "sha256:" + std::to_string(random_.below(2))}};
            return put(holders_, holder.key, holder);
        }
        case 1: {
            volume::ReferenceConfig reference{
                .key = {key_of(random_.below(most_ids), random_.below(2)), "user" + std::to_string(random_.below(2))},
                .publisher = std::string(random_.pick(publishers)),
                .is_verify_only = random_.one_in(4)};
            if (is_rolling_back(reference.key.volume)) return;  // the database refuses it
            return put(references_, reference.key, reference);
        }
        default: {
            auto config = any_volume();
            // Mostly the same again, larger: what an operator does.
            if (auto const old = configs_.find(config.key); old != configs_.end() && !random_.one_in(4)) {
                auto const bytes = old->second.most_bytes + gib;
                config = old->second;
                config.most_bytes = bytes;
            }
            return put(configs_, config.key, config);
        }
    }
}

void VolumeWorld::remove_something() {
    auto const remove = [this](auto& all) {
        if (all.empty()) return;
        auto const victim = std::next(all.begin(), static_cast<std::ptrdiff_t>(random_.below(all.size())));
        auto const key = victim->first;
        all.erase(victim);
        if (core_) send(volume::Removed{key});
    };
    switch (random_.below(6)) {
        case 5: return remove(snapshots_);
        case 0: return remove(trees_);
        case 1: return remove(references_);
        case 2: return remove(holders_);
        default: return remove(configs_);
    }
}

/// A publisher starts again. What it does not repeat is deleted, once it says that it is complete.
void VolumeWorld::restart_publisher() {
    std::string const name(random_.pick(publishers));
    send(volume::PublisherRestarted{name});
    auto const repeat = [&](auto const& all) {
        for (auto const& [key, object] : std::map(all)) {
            if (core_ && object.publisher == name && !random_.one_in(8)) send(volume::Put{object});
        }
    };
    repeat(trees_);
    repeat(configs_);
    repeat(references_);
    repeat(holders_);
    repeat(snapshots_);
    if (core_) send(volume::PublisherComplete{name});
}

// --- the manager ---

void VolumeWorld::start_manager() {
    core_.emplace(settings_);
    volume::Loaded loaded;
    for (auto const& [key, row] : rows_)
        loaded.volumes.push_back(row);
    for (auto const& [id, row] : tree_rows_)
        loaded.trees.push_back(row);
    for (auto const& [key, row] : snapshot_rows_)
        loaded.snapshots.push_back(row);
    auto const repeat = [&loaded](auto const& all) {
        for (auto const& [key, object] : all)
            loaded.objects.emplace_back(object);
    };
    repeat(trees_);
    repeat(configs_);
    repeat(references_);
    repeat(holders_);
    repeat(snapshots_);
    std::array<volume::TreesSeen, 2> seen{{{{}, {volume::FileSystem::clear}}, {{}, {volume::FileSystem::vault}}}};
    for (auto const& [key, tree] : disk_) {
        auto const row = rows_.find(key);
        seen[row != rows_.end() && row->second.is_in_vault ? 1 : 0].volumes.insert(key);
    }
    send(loaded);
    for (volume::TreesSeen const& one : seen)
        if (core_) send(one);
    if (core_) send(volume::CertificatesSeen{certificates_});
    if (core_) perform(volume::LookAtSpace{});
    if (core_) perform(volume::LookAtVault{});
    for (std::string_view const publisher : publishers)
        if (core_ && (is_calm_ || !random_.one_in(4))) send(volume::PublisherComplete{std::string(publisher)});
}

/// Everything in memory is lost. Jobs die somewhere in the middle, and some have finished unheard.
void VolumeWorld::kill_manager() {
    ++kills_;
    for (Work const& work : work_) {
        if (random_.one_in(3))
            take_effect(work.job);
        else if (random_.one_in(2))
            leave_half(work.job);
    }
    core_.reset();
    work_.clear();
    answers_.clear();
    shown_.clear();
    shown_trees_.clear();
    shown_snapshots_.clear();
}

void VolumeWorld::send(volume::Event const& event) {
    core_->on(event, now_);
    perform(core_->take());
}

void VolumeWorld::perform(std::vector<volume::Action> const& actions) {
    for (volume::Action const& action : actions) {
        if (!core_) return;
        std::visit([this](auto const& one) { perform(one); }, action);
        if (!is_calm_ && core_ && random_.one_in(400)) kill_manager();
    }
}

void VolumeWorld::perform(volume::Save const& save) {
    bool const is_deletion = std::holds_alternative<volume::Save::EraseVolume>(save.change);
    if (!is_calm_ && random_.one_in(20)) {
        answers_.push_back(volume::SaveFailed{save.id, {volume::FailureClass::room, "database is full"}});
        return;
    }
    if (auto const* const row = std::get_if<VolumeRow>(&save.change)) {
        auto const old = rows_.find(row->key);
        if (row->stage == VolumeRow::Stage::deleting && is_wanted(row->key))
            fail("deletes " + row->key.text() + ", which is wanted");
        bool const is_new = row->stage == VolumeRow::Stage::intent && old == rows_.end();
        if (is_new && core_->ledger().outstanding(volume::FileSystem::clear) + settings_.ledger.floor > told_free_)
            fail("promises more than the disk has");
        if (row->stage == VolumeRow::Stage::made && (!disk_.contains(row->key) || !disk_[row->key].is_complete))
            fail(row->key.text() + " is called made, and its tree is not");
        rows_.insert_or_assign(row->key, *row);
    } else if (auto const* const tree = std::get_if<volume::TreeRow>(&save.change)) {
        if (tree->is_loaded && !content_.contains(tree->id))
            fail("content " + tree->id + " is called loaded, and is not");
        if (tree->is_loaded && checked_[tree->id] != tree->demand)
            fail("content " + tree->id + " is called checked, and is not");
        tree_rows_.insert_or_assign(tree->id, *tree);
    } else if (auto const* const snapshot = std::get_if<volume::SnapshotRow>(&save.change)) {
        this->save(*snapshot);
    } else if (auto const* const gone = std::get_if<volume::Save::EraseSnapshot>(&save.change)) {
        erase(gone->key);
    } else if (is_deletion) {
        auto const& key = std::get<volume::Save::EraseVolume>(save.change).key;
        if (disk_.contains(key)) fail("forgets " + key.text() + ", whose tree exists");
        rows_.erase(key);
    } else {
        auto const& id = std::get<volume::Save::EraseTree>(save.change).id;
        if (content_.contains(id)) fail("forgets content " + id + ", whose blobs are referenced");
        tree_rows_.erase(id);
    }
    answers_.push_back(volume::Saved{save.id});
}

void VolumeWorld::save(volume::SnapshotRow const& row) {
    using Stage = volume::SnapshotRow::Stage;
    auto const old = snapshot_rows_.find(row.key);
    bool const is_taken = row.stage == Stage::made && old != snapshot_rows_.end() && old->second.stage == Stage::intent;
    for (VolumeKey const& one : row.volumes) {
        auto const tree = disk_.find(one);
        if (is_taken && (tree == disk_.end() || !tree->second.snapshots.contains(row.key)))
            fail("snapshot " + row.key.text() + " is called taken, and " + one.text() + " has none");
        if (row.stage == Stage::rolling_back && is_used(one))
            fail(one.text() + " is to be rolled back, and somebody uses it");
    }
    if (row.stage == Stage::deleting && snapshots_.contains(row.key))
        fail("deletes snapshot " + row.key.text() + ", which is wanted");
    snapshot_rows_.insert_or_assign(row.key, row);
}

void VolumeWorld::erase(volume::SnapshotKey const& key) {
    // A tree that is being removed takes its snapshots along.
    for (VolumeKey const& one : volumes_of(key))
        if (is_made(one) && disk_[one].snapshots.contains(key))
            fail("forgets snapshot " + key.text() + ", which " + one.text() + " has");
    snapshot_rows_.erase(key);
}

void VolumeWorld::perform(volume::Forget const& forget) {
    std::visit(
        [this](auto const& key) {
            using Key = std::remove_cvref_t<decltype(key)>;
            if constexpr (std::is_same_v<Key, VolumeKey>)
                configs_.erase(key);
            else if constexpr (std::is_same_v<Key, std::string>)
                trees_.erase(key);
            else if constexpr (std::is_same_v<Key, volume::HolderKey>)
                holders_.erase(key);
            else if constexpr (std::is_same_v<Key, volume::SnapshotKey>)
                snapshots_.erase(key);
            else
                references_.erase(key);
        },
        forget.object);
}

void VolumeWorld::perform(volume::StartJob const& start) {
    bool const is_of_snapshot = start.job.kind == Job::Kind::take_snapshot || start.job.kind == Job::Kind::roll_back ||
                                start.job.kind == Job::Kind::delete_snapshot;
    if (!is_of_snapshot) check_start(start.job);
    auto busy = is_of_snapshot ? check_start_of_snapshot(start.job) : std::set<VolumeKey>();
    work_.push_back({.id = start.id, .job = start.job, .busy = std::move(busy)});
}

void VolumeWorld::perform(volume::CancelJob const& cancel) {
    auto const found = std::ranges::find(work_, cancel.id, &Work::id);
    if (found == work_.end()) return fail("cancels a job that does not run");
    if (found->is_cancelled) fail("cancels a job twice");
    found->is_cancelled = true;
}

void VolumeWorld::perform(volume::PublishVolume const& publish) {
    volume::VolumeStatus const& status = publish.status;
    auto const old = shown_.find(status.key);
    bool const was_made = old != shown_.end() && old->second.state == volume::State::created_volume &&
                          old->second.sub_state != volume::SubState::deleting;
    if (was_made && status.state != volume::State::created_volume)
        fail(status.key.text() + " was created, and is not any more");
    shown_.insert_or_assign(status.key, status);
}

void VolumeWorld::perform(volume::PublishTree const& publish) {
    volume::TreeStatus const& status = publish.status;
    auto const old = shown_trees_.find(status.id);
    bool const is_back = old != shown_trees_.end() && status.state < old->second.state &&
                         status.state != volume::State::initial && status.state != volume::State::downloading;
    if (is_back) fail("content " + status.id + " goes back to " + std::string(name_of(status.state)));
    shown_trees_.insert_or_assign(status.id, status);
}

void VolumeWorld::perform(volume::PublishCertificates const& publish) {
    bool const is_loaded = publish.status.state == volume::State::loaded;
    if (is_loaded && !certificates_.contains(publish.status.key))
        fail("certificates of " + publish.status.key.text() + " are called loaded, and are not");
}

void VolumeWorld::perform(volume::UnpublishCertificates const& unpublish) {
    if (holders_.contains(unpublish.key)) fail("unpublishes " + unpublish.key.text() + ", which is configured");
    if (certificates_.contains(unpublish.key)) fail("forgets certificates of " + unpublish.key.text());
}

void VolumeWorld::perform(volume::PublishSnapshot const& publish) {
    auto const row = snapshot_rows_.find(publish.status.key);
    if (publish.status.state == volume::SnapshotState::created &&
        (row == snapshot_rows_.end() || row->second.stage == volume::SnapshotRow::Stage::intent))
        fail("snapshot " + publish.status.key.text() + " is shown as created, and is not");
    shown_snapshots_.insert_or_assign(publish.status.key, publish.status);
}

void VolumeWorld::perform(volume::UnpublishSnapshot const& unpublish) {
    if (shown_snapshots_.erase(unpublish.key) == 0) fail("unpublishes a snapshot that was not published");
    if (snapshots_.contains(unpublish.key)) fail("unpublishes " + unpublish.key.text() + ", which is configured");
}

void VolumeWorld::perform(volume::UnpublishVolume const& unpublish) {
    if (shown_.erase(unpublish.key) == 0) fail("unpublishes what was not published");
    if (configs_.contains(unpublish.key)) fail("unpublishes " + unpublish.key.text() + ", which is configured");
}

void VolumeWorld::perform(volume::UnpublishTree const& unpublish) { shown_trees_.erase(unpublish.id); }

void VolumeWorld::perform(volume::LookAtSpace const& /*look*/) {
    using volume::FileSystem;
    // Each file system answers for itself, and the disk of one may not answer.
    volume::SpaceSeen clear;
    clear.looked_at = {FileSystem::clear};
    if (is_calm_ || !random_.one_in(8)) clear.free[FileSystem::clear] = free_bytes();
    volume::SpaceSeen vault;
    vault.looked_at = {FileSystem::vault};
    if (random_.one_in(2)) std::swap(clear, vault);
    answers_.emplace_back(std::move(clear));
    answers_.emplace_back(std::move(vault));
}

void VolumeWorld::perform(volume::LookAtVault const& /*look*/) { answers_.push_back(volume::VaultSeen{is_unlocked_}); }

void VolumeWorld::deliver() {
    while (!answers_.empty() && core_) {
        volume::Event const event = answers_.front();
        if (is_calm_ || !random_.one_in(16)) answers_.pop_front();  // else it comes twice
        auto const* const seen = std::get_if<volume::SpaceSeen>(&event);
        if (seen && seen->free.contains(volume::FileSystem::clear))
            told_free_ = seen->free.at(volume::FileSystem::clear);
        send(event);
        if (!is_calm_ && random_.one_in(4)) return;  // the rest comes late
    }
}

void VolumeWorld::end_job(std::size_t index) {
    Work const work = work_[index];
    work_.erase(work_.begin() + static_cast<std::ptrdiff_t>(index));
    if (work.is_cancelled && random_.one_in(2)) {
        if (random_.one_in(2)) leave_half(work.job);
        return send(volume::JobCancelled{work.id});
    }
    if (!is_calm_ && random_.one_in(4)) {
        static constexpr std::array<volume::FailureClass, 5> classes{
            volume::FailureClass::transient, volume::FailureClass::transient, volume::FailureClass::room,
            volume::FailureClass::server, volume::FailureClass::permanent};
        if (random_.one_in(2)) leave_half(work.job);
        return send(volume::JobFailed{work.id, {random_.pick(classes), "it failed"}});
    }
    bool const lacks_something = std::ranges::any_of(
        work.busy, [&](VolumeKey const& one) { return !disk_[one].snapshots.contains(work.job.snapshot); });
    if (work.job.kind == Job::Kind::roll_back && lacks_something)
        return send(volume::JobFailed{work.id, {volume::FailureClass::permanent, "a volume has no such snapshot"}});
    take_effect(work.job);
    volume::JobDone const done{work.id, "sha256:" + std::to_string(random_.below(2)), gib};
    send(done);
    if (core_ && !is_calm_ && random_.one_in(16)) send(done);  // a doubled answer
}

void VolumeWorld::take_effect(Job const& job) {
    switch (job.kind) {
        case Job::Kind::resolve: break;
        case Job::Kind::fetch:
            content_.insert(job.content);
            checked_[job.content] = job.demand;
            break;
        case Job::Kind::fetch_certificates: certificates_.insert(job.holder); break;
        case Job::Kind::drop_certificates: certificates_.erase(job.holder); break;
        case Job::Kind::drop: content_.erase(job.content); break;
        case Job::Kind::build:
            disk_[job.volume] = {true, job.bytes};
            ++created_;
            break;
        case Job::Kind::grow: disk_[job.volume].bytes = job.bytes; break;
        case Job::Kind::destroy: destroyed_ += disk_.erase(job.volume); break;
        case Job::Kind::take_snapshot:
            for (VolumeKey const& one : volumes_of(job.snapshot))
                if (is_made(one)) disk_[one].snapshots.insert(job.snapshot);
            ++taken_;
            break;
        case Job::Kind::roll_back: ++rolled_back_; break;
        case Job::Kind::delete_snapshot:
            for (VolumeKey const& one : volumes_of(job.snapshot))
                if (is_made(one)) disk_[one].snapshots.erase(job.snapshot);
            break;
    }
}

/// A job that was interrupted. The pool's own operations happen completely or not at all, but a build has several.
void VolumeWorld::leave_half(Job const& job) {
    if (job.kind == Job::Kind::build) disk_[job.volume] = {false, 0};
    if (job.kind == Job::Kind::fetch_certificates) certificates_.insert(job.holder);
    auto const volumes = volumes_of(job.snapshot);
    if (job.kind == Job::Kind::take_snapshot && is_made(volumes.front()))
        disk_[volumes.front()].snapshots.insert(job.snapshot);
}

VolumeWorld::Volumes VolumeWorld::volumes_of(volume::SnapshotKey const& key) const {
    auto const row = snapshot_rows_.find(key);
    return row == snapshot_rows_.end() ? Volumes() : row->second.volumes;
}

bool VolumeWorld::is_used(VolumeKey const& key) const {
    auto const first = references_.lower_bound({key, ""});
    return first != references_.end() && first->first.volume == key;
}

bool VolumeWorld::is_made(VolumeKey const& key) const {
    auto const row = rows_.find(key);
    return row != rows_.end() && row->second.stage == VolumeRow::Stage::made;
}

bool VolumeWorld::is_rolling_back(VolumeKey const& key) const {
    return std::ranges::any_of(snapshot_rows_, [&](auto const& one) {
        auto const& [id, row] = one;
        return row.stage == volume::SnapshotRow::Stage::rolling_back &&
               std::ranges::find(row.volumes, key) != row.volumes.end();
    });
}

std::uint64_t VolumeWorld::free_bytes() const {
    // Nothing is written into the volumes here: promises alone take the space.
    return capacity_;
}

volume::VolumeConfig const* VolumeWorld::config_of(VolumeKey const& key) const {
    auto const found = configs_.find(key);
    return found == configs_.end() ? nullptr : &found->second;
}

bool VolumeWorld::is_wanted(VolumeKey const& key) const { return configs_.contains(key) || is_used(key); }

// --- what must hold ---

/// Nothing is made of content whose signature was not checked as it is demanded now.
void VolumeWorld::check_signature(std::string const& content) {
    auto const tree = trees_.find(content);
    if (tree == trees_.end() || !tree->second.signature) return;
    if (checked_[content] != demand_of(tree->second.signature))
        fail("a volume is made of content " + content + ", whose signature was not checked");
}

/// Whether there are the certificates by which content is checked.
bool VolumeWorld::can_load(std::string const& content) const {
    auto const tree = trees_.find(content);
    if (tree == trees_.end()) return false;
    auto const& signature = tree->second.signature;
    return !signature || !signature->holder || holders_.contains(*signature->holder);
}

/// Whether a volume that has begun waits for a signature of its content that was demanded since. Its certificates may
/// not be there; and with other content in its configuration, it waits for its publisher.
bool VolumeWorld::waits_for_signature(VolumeKey const& key) const {
    auto const row = rows_.find(key);
    if (row == rows_.end() || row->second.stage != VolumeRow::Stage::intent) return false;
    auto const* const config = config_of(key);
    bool const is_other = !config || config->content != row->second.content;
    return trees_.contains(row->second.content) && (is_other || !can_load(row->second.content));
}

void VolumeWorld::check_start(Job const& job) {
    if (job.kind == Job::Kind::fetch_certificates || job.kind == Job::Kind::drop_certificates) {
        bool const has_other =
            std::ranges::any_of(work_, [&](Work const& work) { return work.job.holder == job.holder; });
        if (has_other) fail(std::string(name_of(job.kind)) + " begins beside another job");
        if (holders_.contains(job.holder) != (job.kind == Job::Kind::fetch_certificates))
            fail(std::string(name_of(job.kind)) + " is not what is wanted");
        return;
    }
    bool const is_of_volume =
        job.kind == Job::Kind::build || job.kind == Job::Kind::grow || job.kind == Job::Kind::destroy;
    std::string const what = std::string(name_of(job.kind)) + " of " + (is_of_volume ? job.volume.text() : job.content);
    bool const is_second = std::ranges::any_of(work_, [&](Work const& work) {
        bool const other_is_of_volume = work.job.kind == Job::Kind::build || work.job.kind == Job::Kind::grow ||
                                        work.job.kind == Job::Kind::destroy;
        return other_is_of_volume == is_of_volume &&
               (is_of_volume ? work.job.volume == job.volume : work.job.content == job.content);
    });
    if (is_second) fail(what + " begins beside another job");
    if (is_of_volume && std::ranges::any_of(work_, [&](Work const& work) { return work.busy.contains(job.volume); }))
        fail(what + " begins beside the job of a snapshot");
    auto const row = rows_.find(job.volume);
    switch (job.kind) {
        case Job::Kind::build:
            if (row == rows_.end() || row->second.stage != VolumeRow::Stage::intent)
                fail(what + " begins without its row");
            if (row != rows_.end()) check_signature(row->second.content);
            if (auto const* const config = config_of(job.volume);
                config && config->is_encrypted && row != rows_.end() && !row->second.is_in_vault)
                break;  // the configuration changed after the row: a conflict that is shown
            break;
        case Job::Kind::grow:
            if (row == rows_.end() || row->second.stage != VolumeRow::Stage::made)
                fail(what + " begins without its row");
            break;
        case Job::Kind::destroy:
            if (row == rows_.end() || row->second.stage == VolumeRow::Stage::made)
                fail(what + " begins without its row");
            if (row != rows_.end() && row->second.stage == VolumeRow::Stage::intent && is_wanted(job.volume))
                fail(what + " begins, and it is wanted");
            break;
        case Job::Kind::fetch:
            if (!tree_rows_.contains(job.content)) fail(what + " begins without its row");
            break;
        case Job::Kind::resolve:
        case Job::Kind::drop:
        case Job::Kind::fetch_certificates:
        case Job::Kind::drop_certificates:
        case Job::Kind::take_snapshot:
        case Job::Kind::roll_back:
        case Job::Kind::delete_snapshot: break;
    }
}

/// Returns the volumes that the job works on.
std::set<VolumeKey> VolumeWorld::check_start_of_snapshot(Job const& job) {
    using Stage = volume::SnapshotRow::Stage;
    std::string const what = std::string(name_of(job.kind)) + " of " + job.snapshot.text();
    auto const row = snapshot_rows_.find(job.snapshot);
    Stage const stage = job.kind == Job::Kind::take_snapshot ? Stage::intent
                        : job.kind == Job::Kind::roll_back   ? Stage::rolling_back
                                                             : Stage::deleting;
    if (row == snapshot_rows_.end() || row->second.stage != stage) {
        fail(what + " begins without its row");
        return {};
    }
    std::set<VolumeKey> busy;
    for (VolumeKey const& one : row->second.volumes) {
        if (is_made(one)) busy.insert(one);
        if (job.kind != Job::Kind::delete_snapshot && !is_made(one)) fail(what + " begins without " + one.text());
        if (job.kind == Job::Kind::roll_back && is_used(one)) fail(what + " begins, and somebody uses " + one.text());
    }
    for (Work const& work : work_) {
        bool const is_of_volume = work.job.kind == Job::Kind::build || work.job.kind == Job::Kind::grow ||
                                  work.job.kind == Job::Kind::destroy;
        bool const meets = std::ranges::any_of(busy, [&](VolumeKey const& one) {
            return work.busy.contains(one) || (is_of_volume && work.job.volume == one);
        });
        if (meets || work.job.snapshot == job.snapshot) fail(what + " begins beside another job");
    }
    return busy;
}

bool VolumeWorld::can_exist(volume::VolumeConfig const& config, int depth) const {
    bool has_users = false;
    bool is_only_verified = true;
    for (auto i = references_.lower_bound({config.key, ""}); i != references_.end() && i->first.volume == config.key;
         ++i) {
        has_users = true;
        is_only_verified = is_only_verified && i->second.is_verify_only;
    }
    if (has_users && is_only_verified) return false;
    switch (config.origin) {
        case volume::Origin::blank:
        case volume::Origin::received:
        case volume::Origin::cloud_init: return true;
        case volume::Origin::download: return can_load(config.content);
        case volume::Origin::clone: {
            if (rows_.contains(*config.source) && is_wanted(*config.source)) return true;
            auto const* const source = config_of(*config.source);
            return source && depth < 16 && can_exist(*source, depth + 1);
        }
    }
    std::unreachable();
}

void VolumeWorld::check_volume(volume::VolumeConfig const& config) {
    auto const status = core_->status(config.key);
    if (!status) return fail(config.key.text() + " is configured, and has no status");
    auto const found = disk_.find(config.key);
    bool const exists = found != disk_.end() && found->second.is_complete;
    bool const is_in_conflict = status->error && status->error->failure == volume::FailureClass::permanent;
    if (can_exist(config) && !exists && !waits_for_signature(config.key)) {
        std::string text = config.key.text() + " could exist, and does not:";
        for (std::string const& line : core_->why(config.key))
            text += "\n  " + line;
        return fail(text);
    }
    if (exists && !is_in_conflict && rows_.contains(config.key) && found->second.bytes < config.most_bytes)
        fail(config.key.text() + " did not grow");
}

void VolumeWorld::check_snapshots() {
    for (auto const& [key, config] : snapshots_) {
        auto const status = core_->status(key);
        if (!status) return fail("snapshot " + key.text() + " is configured, and has no status");
        auto const row = snapshot_rows_.find(key);
        bool const can_exist = std::ranges::all_of(config.volumes, [&](VolumeKey const& one) { return is_made(one); });
        bool const exists = row != snapshot_rows_.end() && row->second.stage == volume::SnapshotRow::Stage::made;
        if (can_exist && !exists && !status->error) {
            std::string text = "snapshot " + key.text() + " could exist, and does not:";
            for (std::string const& line : core_->why(key))
                text += "\n  " + line;
            return fail(text);
        }
        if (exists && !status->error && row->second.rollbacks < config.rollbacks)
            fail("snapshot " + key.text() + " was not given back");
    }
    for (auto const& [key, row] : snapshot_rows_)
        if (!snapshots_.contains(key)) fail("the row of snapshot " + key.text() + " stays");
    for (auto const& [volume, tree] : disk_)
        for (volume::SnapshotKey const& key : tree.snapshots)
            if (!snapshots_.contains(key)) fail(volume.text() + " keeps snapshot " + key.text());
}

void VolumeWorld::check_end() {
    check_snapshots();
    for (auto const& [key, config] : configs_)
        check_volume(config);
    for (auto const& [id, tree] : trees_) {
        auto const status = core_->status(id);
        if (can_load(id) && (!status || status->state != volume::State::loaded))
            fail("content " + id + " is not loaded");
    }
    for (auto const& [key, holder] : holders_)
        if (!certificates_.contains(key)) fail("the certificates of " + key.text() + " are not there");
    for (volume::HolderKey const& key : certificates_)
        if (!holders_.contains(key)) fail("the certificates of " + key.text() + " stay");
    for (auto const& [key, tree] : disk_) {
        if (!is_wanted(key)) fail(key.text() + " is wanted by nobody, and stays");
    }
    for (auto const& [key, row] : rows_) {
        if (!is_wanted(key)) fail("the row of " + key.text() + " stays");
        if (row.stage != VolumeRow::Stage::made && !waits_for_signature(key))
            fail("the row of " + key.text() + " is not made");
    }
}

void VolumeWorld::step() {
    now_ += std::chrono::milliseconds(random_.below(random_.one_in(20) ? 700'000 : 2'000));
    if (!core_) start_manager();
    if (!core_) return;
    switch (random_.below(12)) {
        case 0:
        case 1: publish_something(); break;
        case 2: remove_something(); break;
        case 3:
            if (random_.one_in(10)) restart_publisher();
            break;
        case 4:
            if (random_.one_in(10)) capacity_ = (8 + random_.below(200)) * gib;
            if (random_.one_in(10)) is_unlocked_ = !is_unlocked_;
            break;
        case 5:
            if (random_.one_in(10)) send(volume::RetryAsked{});
            break;
        case 6:
            if (random_.one_in(20)) send(volume::MaintenanceSet{random_.one_in(2)});
            break;
        case 7:
            if (random_.one_in(30)) kill_manager();
            break;
        default:
            if (!work_.empty()) end_job(random_.below(work_.size()));
            break;
    }
    if (core_) deliver();
    if (core_ && core_->next() && *core_->next() <= now_) send(volume::TimePassed{});
}

void VolumeWorld::settle() {
    if (!problem_.empty()) return;
    is_calm_ = true;
    is_unlocked_ = true;
    capacity_ = 4096 * gib;
    if (!core_) start_manager();
    send(volume::MaintenanceSet{false});
    for (std::string_view const publisher : publishers)
        send(volume::PublisherComplete{std::string(publisher)});
    perform(volume::LookAtSpace{});
    perform(volume::LookAtVault{});
    send(volume::RetryAsked{});
    for (int rounds = 0; rounds < 10'000 && problem_.empty(); ++rounds) {
        deliver();
        while (!work_.empty())
            end_job(0);
        if (!answers_.empty()) continue;
        auto const next = core_->next();
        if (!next) break;
        now_ = std::max(now_, *next);
        send(volume::TimePassed{});
    }
    deliver();
    if (problem_.empty()) check_end();
    if (problem_.empty() && !core_->is_settled()) {
        // What is in conflict with its configuration, or refused for good, waits for its operator.
        bool const is_explained =
            std::ranges::any_of(shown_, [](auto const& one) { return one.second.error.has_value(); }) ||
            std::ranges::any_of(shown_snapshots_, [](auto const& one) { return one.second.error.has_value(); });
        if (!is_explained) fail("it waits for something, and shows nothing");
    }
}

}  // namespace triton::simulation
