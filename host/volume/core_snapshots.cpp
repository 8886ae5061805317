#include <algorithm>
#include <utility>

#include "host/volume/core.h"

namespace triton::volume {

void Core::update(SnapshotKey const& key, Snapshot& snapshot) {
    if (!snapshot.saving && !snapshot.running) advance(key, snapshot);
    snapshot.retry.failure() ? (void)waiting_snapshots_.insert(key) : (void)waiting_snapshots_.erase(key);
    if (snapshot.config || snapshot.row || snapshot.saving || snapshot.running) {
        publish(key, snapshot);
        return;
    }
    if (snapshot.published) actions_.push_back(UnpublishSnapshot{key});
    list(key, snapshot, {});
    waiting_snapshots_.erase(key);
    snapshots_.erase(key);
}

void Core::advance(SnapshotKey const& key, Snapshot& snapshot) {
    if (!snapshot.config && !snapshot.row) return snapshot.retry.reset();
    if (!snapshot.config && snapshot.row->stage != SnapshotRow::Stage::deleting) return take_away(key, snapshot);
    if (!snapshot.retry.is_due(now_)) return;
    if (!snapshot.row) return begin(key, snapshot);
    switch (snapshot.row->stage) {
        case SnapshotRow::Stage::intent: return start(key, snapshot, Job::Kind::take_snapshot);
        case SnapshotRow::Stage::made: return maintain(key, snapshot);
        case SnapshotRow::Stage::rolling_back: return start(key, snapshot, Job::Kind::roll_back);
        // Its deletion was saved before it was wanted again: it ends first.
        case SnapshotRow::Stage::deleting: return start(key, snapshot, Job::Kind::delete_snapshot);
    }
}

/// From a configuration to the row that says what is about to be taken.
void Core::begin(SnapshotKey const& key, Snapshot& snapshot) {
    SnapshotConfig const& config = *snapshot.config;
    if (lacking_volume(config.volumes)) return snapshot.retry.reset();
    // A rollback to what is taken now would change nothing.
    save(
        key, snapshot,
        SnapshotRow{
            .key = key, .stage = SnapshotRow::Stage::intent, .volumes = config.volumes, .rollbacks = config.rollbacks});
}

/// A snapshot that was taken and is wanted: its volumes can be rolled back to it.
void Core::maintain(SnapshotKey const& key, Snapshot& snapshot) {
    if (conflict(snapshot) || snapshot.config->rollbacks <= snapshot.row->rollbacks) return snapshot.retry.reset();
    if (auto failure = against_rollback(*snapshot.row)) return fail(snapshot, *std::move(failure));
    SnapshotRow row = *snapshot.row;
    row.stage = SnapshotRow::Stage::rolling_back;
    row.rollbacks = snapshot.config->rollbacks;
    save(key, snapshot, std::move(row));
}

/// Nobody wants it any more. A rollback ends first, as long as it can, because its volumes belong together.
void Core::take_away(SnapshotKey const& key, Snapshot& snapshot) {
    if (!snapshot.retry.is_due(now_)) return;
    bool const is_half = snapshot.row->stage == SnapshotRow::Stage::rolling_back;
    if (is_half && !snapshot.cannot_roll_back && !lacking_volume(snapshot.row->volumes))
        return start(key, snapshot, Job::Kind::roll_back);
    SnapshotRow row = *snapshot.row;
    row.stage = SnapshotRow::Stage::deleting;
    save(key, snapshot, std::move(row));
}

Core::Volume const* Core::made_volume(VolumeKey const& key) const {
    auto const found = volumes_.find(key);
    if (found == volumes_.end() || !found->second.row) return nullptr;
    return found->second.row->stage == VolumeRow::Stage::made ? &found->second : nullptr;
}

std::optional<VolumeKey> Core::lacking_volume(std::vector<VolumeKey> const& volumes) const {
    auto const found = std::ranges::find_if(volumes, [this](VolumeKey const& key) {
        Volume const* const volume = made_volume(key);
        return !volume || volume->is_missing;
    });
    return found == volumes.end() ? std::nullopt : std::optional(*found);
}

std::optional<Failure> Core::against_rollback(SnapshotRow const& row) const {
    if (auto const lacking = lacking_volume(row.volumes))
        return Failure{FailureClass::permanent, "volume " + lacking->text() + " does not exist any more"};
    for (VolumeKey const& volume : row.volumes) {
        auto const user = references_.lower_bound({volume, ""});
        if (user != references_.end() && user->first.volume == volume)
            return Failure{FailureClass::permanent, "volume " + volume.text() + " is used by " +
                                                        shown_user(user->second.config) +
                                                        "; it is rolled back when nobody uses it"};
    }
    return std::nullopt;
}

/// Starts a job once none of its volumes has another one.
void Core::start(SnapshotKey const& key, Snapshot& snapshot, Job::Kind kind) {
    SnapshotRow const& row = *snapshot.row;
    std::set<VolumeKey> busy;
    for (VolumeKey const& one : row.volumes) {
        auto const found = volumes_.find(one);
        if (found == volumes_.end()) continue;
        Volume const& volume = found->second;
        if (volume.saving || volume.running || volume.is_in_snapshot) return snapshot.retry.reset();
        if (!made_volume(one)) continue;
        if (volume.row->is_in_vault && !is_unlocked_) return fail(snapshot, {FailureClass::vault, vault_problem_});
        busy.insert(one);
    }
    // It waits for volumes that are to come; those that are gone have taken their part of a snapshot along.
    if (kind == Job::Kind::take_snapshot && lacking_volume(row.volumes)) return snapshot.retry.reset();
    if (kind == Job::Kind::roll_back) {
        if (auto failure = against_rollback(row)) return fail(snapshot, *std::move(failure));
    }
    for (VolumeKey const& one : busy)
        volumes_.at(one).is_in_snapshot = true;
    snapshot.busy = std::move(busy);
    JobId const id{next_id_++};
    jobs_[id] = key;
    Job job{.kind = kind, .snapshot = key};
    actions_.push_back(StartJob{id, job});
    snapshot.running = Running{id, std::move(job)};
}

/// After a job, its volumes can have others again.
void Core::release(Snapshot& snapshot) {
    for (VolumeKey const& one : std::exchange(snapshot.busy, {})) {
        if (auto const found = volumes_.find(one); found != volumes_.end()) found->second.is_in_snapshot = false;
        mark(one);
    }
}

/// Whether a job that failed does not keep a snapshot that nobody wants.
bool Core::gives_up(Snapshot& snapshot, Job::Kind kind, Failure const& failure) {
    if (kind != Job::Kind::roll_back || snapshot.config || failure.failure != FailureClass::permanent) return false;
    snapshot.cannot_roll_back = true;
    return true;
}

void Core::done(SnapshotKey const& key, Snapshot& snapshot, JobDone const& event) {
    Job::Kind const kind = snapshot.running->job.kind;
    jobs_.erase(snapshot.running->id);
    snapshot.running.reset();
    snapshot.retry.succeeded();
    if (kind == Job::Kind::delete_snapshot) return save(key, snapshot, std::nullopt);
    SnapshotRow row = *snapshot.row;
    row.stage = SnapshotRow::Stage::made;
    if (kind == Job::Kind::take_snapshot) row.taken = event.taken;
    save(key, snapshot, std::move(row));
}

void Core::save(SnapshotKey const& key, Snapshot& snapshot, std::optional<SnapshotRow> row) {
    SaveId const id{next_id_++};
    saves_[id] = key;
    if (row)
        actions_.push_back(Save{id, *row});
    else
        actions_.push_back(Save{id, Save::EraseSnapshot{key}});
    snapshot.saving = Saving<SnapshotRow>{id, std::move(row)};
}

/// Room comes back without anybody's notice, as by a user who deletes files: it is not asked for, but tried.
void Core::fail(Snapshot& snapshot, Failure failure) {
    if (failure.failure == FailureClass::room) failure.failure = FailureClass::transient;
    snapshot.retry.failed(std::move(failure), now_, settings_.retry, random());
}

void Core::publish(SnapshotKey const& key, Snapshot& snapshot) {
    SnapshotStatus status = status_of(key, snapshot);
    if (snapshot.published == status) return;
    snapshot.published = status;
    actions_.push_back(PublishSnapshot{std::move(status)});
}

/// Why a configuration cannot be had from the snapshot that exists.
std::optional<std::string> Core::conflict(Snapshot const& snapshot) const {
    if (!snapshot.config || !snapshot.row || snapshot.row->stage == SnapshotRow::Stage::deleting) return std::nullopt;
    if (snapshot.config->volumes == snapshot.row->volumes) return std::nullopt;
    return "it is of other volumes; another SnapshotID is needed";
}

SnapshotStatus Core::status_of(SnapshotKey const& key, Snapshot const& snapshot) const {
    SnapshotStatus status{.key = key};
    status.publisher = snapshot.config ? snapshot.config->publisher : "unknown";
    if (snapshot.config) status.user = snapshot.config->user;
    status.error = snapshot.retry.failure();
    if (auto text = conflict(snapshot)) status.error = Failure{FailureClass::permanent, *std::move(text)};
    if (!snapshot.row) {
        if (snapshot.config) status.volumes = snapshot.config->volumes;
        return status;
    }
    SnapshotRow const& row = *snapshot.row;
    status.volumes = row.volumes;
    status.rollbacks = row.rollbacks;
    status.taken = row.taken;
    switch (row.stage) {
        case SnapshotRow::Stage::intent: status.state = SnapshotState::creating; break;
        case SnapshotRow::Stage::made: status.state = SnapshotState::created; break;
        case SnapshotRow::Stage::rolling_back: status.state = SnapshotState::rolling_back; break;
        case SnapshotRow::Stage::deleting: status.state = SnapshotState::deleting; break;
    }
    if (status.error || row.stage != SnapshotRow::Stage::made) return status;
    if (auto const lacking = lacking_volume(row.volumes))
        status.error = Failure{FailureClass::permanent,
                               "volume " + lacking->text() + " is not there, and with it what the snapshot has of it"};
    return status;
}

std::optional<SnapshotStatus> Core::status(SnapshotKey const& key) const {
    auto const found = snapshots_.find(key);
    if (found == snapshots_.end()) return std::nullopt;
    return status_of(key, found->second);
}

SnapshotRow const* Core::row(SnapshotKey const& key) const {
    auto const found = snapshots_.find(key);
    return found == snapshots_.end() || !found->second.row ? nullptr : &*found->second.row;
}

SnapshotConfig const* Core::config(SnapshotKey const& key) const {
    auto const found = snapshots_.find(key);
    return found == snapshots_.end() || !found->second.config ? nullptr : &*found->second.config;
}

/// Notes which volumes lead to a snapshot.
void Core::list(SnapshotKey const& key, Snapshot& snapshot, std::vector<VolumeKey> const& volumes) {
    for (VolumeKey const& one : std::exchange(snapshot.listed, {volumes.begin(), volumes.end()})) {
        auto const found = snapshots_of_.find(one);
        found->second.erase(key);
        if (found->second.empty()) snapshots_of_.erase(found);
    }
    for (VolumeKey const& one : snapshot.listed)
        snapshots_of_[one].insert(key);
}

void Core::mark_snapshots_of(VolumeKey const& key) {
    if (auto const found = snapshots_of_.find(key); found != snapshots_of_.end())
        marked_snapshots_.insert(found->second.begin(), found->second.end());
}

void Core::put(SnapshotConfig const& config) {
    Snapshot& snapshot = snapshots_[config.key];
    if (!snapshot.config || *snapshot.config != config) {
        snapshot.retry.reset();
        if (snapshot.running) snapshot.running->is_outdated = true;
    }
    snapshot.config = config;
    snapshot.is_repeated = true;
    snapshot.cannot_roll_back = false;
    std::vector<VolumeKey> volumes = config.volumes;
    if (snapshot.row) volumes.insert(volumes.end(), snapshot.row->volumes.begin(), snapshot.row->volumes.end());
    list(config.key, snapshot, volumes);
    marked_snapshots_.insert(config.key);
}

void Core::remove(SnapshotKey const& key) {
    auto const found = snapshots_.find(key);
    if (found == snapshots_.end() || !found->second.config) return;
    found->second.config.reset();
    found->second.retry.reset();
    marked_snapshots_.insert(key);
}

}  // namespace triton::volume
