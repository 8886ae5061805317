#include <algorithm>
#include <utility>

#include "host/volume/core.h"

namespace triton::volume {

namespace {

/// Between two times that the age of an unclaimed volume is saved: a reboot loses no more of it.
constexpr BootTime unclaimed_step = std::chrono::minutes(1);

}  // namespace

void Core::update(VolumeKey const& key, Volume& volume) {
    if (!volume.saving && !volume.running && !volume.is_in_snapshot) advance(key, volume);
    if (volume.running && volume.running->job.kind == Job::Kind::build && !volume.running->is_cancelled &&
        !is_wanted(key, volume)) {
        volume.running->is_cancelled = true;
        actions_.push_back(CancelJob{volume.running->id});
    }
    keep_promise(key, volume);
    // An unwanted volume waits for its grace, and before that for publishers and for the end of maintenance.
    bool const is_waiting = volume.retry.failure() || (volume.row && !is_wanted(key, volume));
    is_waiting ? (void)waiting_.insert(key) : (void)waiting_.erase(key);
    if (volume.config || volume.row || volume.saving || volume.running || users(key) > 0) {
        publish(key, volume);
        return;
    }
    if (volume.published) actions_.push_back(UnpublishVolume{key});
    waiting_.erase(key);
    if (auto const found = clones_of_.find(key); found != clones_of_.end() && found->second.empty())
        clones_of_.erase(found);
    volumes_.erase(key);
}

void Core::advance(VolumeKey const& key, Volume& volume) {
    bool const is_wanted_now = is_wanted(key, volume);
    count_unclaimed(volume);
    if (!is_wanted_now && !volume.row) {
        volume.retry.reset();
        return;
    }
    if (!volume.retry.is_due(now_)) return;
    if (is_locked_away(key, volume)) return fail(volume, {FailureClass::vault, vault_problem_});
    if (!is_wanted_now) return take_away(key, volume);
    if (!volume.row) return begin(key, volume);
    switch (volume.row->stage) {
        case VolumeRow::Stage::intent:
            if (is_unchecked(volume.row->content)) return;
            return start(volume, {.kind = Job::Kind::build, .volume = key, .bytes = volume.row->bytes});
        case VolumeRow::Stage::made: return maintain(volume);
        // Its deletion was saved before it was wanted again: it ends first.
        case VolumeRow::Stage::deleting: return start(volume, {.kind = Job::Kind::destroy, .volume = key});
    }
}

/// Whether nothing can be done with a volume before the vault is unlocked. What nobody claims says nothing meanwhile.
bool Core::is_locked_away(VolumeKey const& key, Volume const& volume) const {
    if (!volume.row || !volume.row->is_in_vault || is_unlocked_) return false;
    return is_wanted(key, volume) || volume.row->stage != VolumeRow::Stage::made || volume.is_released;
}

bool Core::is_wanted(VolumeKey const& key, Volume const& volume) const {
    return volume.config || (volume.row && users(key) > 0);
}

/// From a configuration to the row that says what is about to be made.
void Core::begin(VolumeKey const& key, Volume& volume) {
    auto const source = source_state(volume);
    if (!source || is_verify_only(key)) {
        volume.retry.reset();
        return;
    }
    VolumeConfig const& config = *volume.config;
    if (config.is_encrypted && !is_unlocked_) return fail(volume, {FailureClass::vault, vault_problem_});
    if (!seen_space_.contains(file_system_of(config.is_encrypted))) return;
    if (auto lack = lack_of_room(volume, config.most_bytes)) return fail(volume, *std::move(lack));
    volume.retry.reset();
    save(key, volume,
         VolumeRow{.key = key,
                   .stage = VolumeRow::Stage::intent,
                   .bytes = config.most_bytes,
                   .is_in_vault = config.is_encrypted,
                   .content = config.content,
                   .format = format_for(config)});
}

/// What a volume will be, once its source is complete.
Format Core::format_for(VolumeConfig const& config) const {
    switch (config.origin) {
        case Origin::blank: return config.layout == Layout::file ? Format::raw : Format::directory;
        case Origin::cloud_init: return Format::iso;
        case Origin::download: {
            Format const format = trees_.find(config.content)->second.config->format;
            return config.format && layout_of(format) == Layout::file ? *config.format : format;
        }
        case Origin::clone: return volumes_.at(*config.source).row->format;
        case Origin::received: return config.format.value_or(Format::directory);
    }
    std::unreachable();
}

/// A volume that exists and is wanted: it can grow.
void Core::maintain(Volume& volume) {
    VolumeRow const& row = *volume.row;
    if (volume.is_missing) {
        if (!volume.retry.failure())
            fail(volume,
                 {FailureClass::permanent, "its data are not in the pool; delete the volume, or bring the pool back"});
        return;
    }
    if (!volume.config || conflict(volume) || volume.config->most_bytes <= row.bytes) {
        volume.retry.reset();
        return;
    }
    if (!seen_space_.contains(file_system_of(row.is_in_vault))) return;
    if (auto lack = lack_of_room(volume, volume.config->most_bytes - row.bytes)) return fail(volume, *std::move(lack));
    if (auto const writer = writer_of(row.key); writer && row.format == Format::qcow2) {
        // Its tables change, and a program that has it open would not notice.
        if (!volume.retry.failure())
            fail(volume,
                 {FailureClass::permanent, "a qcow2 file grows when nobody writes it, and it is used by " + *writer});
        return;
    }
    start(volume, {.kind = Job::Kind::grow, .volume = row.key, .bytes = volume.config->most_bytes});
}

void Core::take_away(VolumeKey const& key, Volume& volume) {
    switch (volume.row->stage) {
        case VolumeRow::Stage::intent:
        case VolumeRow::Stage::deleting: return start(volume, {.kind = Job::Kind::destroy, .volume = key});
        case VolumeRow::Stage::made: break;
    }
    auto const at = collect_at(volume);
    if (!volume.is_released && (!at || now_ < *at || is_in_maintenance_ || !are_publishers_complete())) return;
    VolumeRow row = *volume.row;
    row.stage = VolumeRow::Stage::deleting;
    save(key, volume, std::move(row));
}

/// How long nobody has claimed a volume that was found, which is what its collection depends on.
void Core::count_unclaimed(Volume& volume) {
    bool const is_unclaimed = volume.row && volume.row->stage == VolumeRow::Stage::made && !volume.is_released &&
                              !is_wanted(volume.row->key, volume);
    if (!is_unclaimed || !are_publishers_complete() || is_in_maintenance_) {
        volume.unclaimed_since.reset();
        if (!is_unclaimed && volume.row) volume.row->unclaimed_seconds = 0;
        return;
    }
    if (!volume.unclaimed_since) volume.unclaimed_since = now_;
    BootTime const passed = now_ - *volume.unclaimed_since;
    if (passed < unclaimed_step || now_ >= *collect_at(volume)) return;
    VolumeRow row = *volume.row;
    row.unclaimed_seconds += std::chrono::duration_cast<std::chrono::seconds>(passed).count();
    volume.unclaimed_since = now_;
    save(row.key, volume, row);
}

std::optional<BootTime> Core::collect_at(Volume const& volume) const {
    if (!volume.unclaimed_since || !volume.row) return std::nullopt;
    return *volume.unclaimed_since + settings_.collect_after - std::chrono::seconds(volume.row->unclaimed_seconds);
}

bool Core::are_publishers_complete() const {
    return std::ranges::all_of(is_complete_, [](auto const& publisher) { return publisher.second; });
}

void Core::done(VolumeKey const& key, Volume& volume) {
    Job const job = volume.running->job;
    jobs_.erase(volume.running->id);
    volume.running.reset();
    volume.retry.succeeded();
    switch (job.kind) {
        case Job::Kind::build: {
            VolumeRow row = *volume.row;
            row.stage = VolumeRow::Stage::made;
            volume.is_missing = false;
            volume.sub_state = SubState::created;
            return save(key, volume, std::move(row));
        }
        case Job::Kind::grow: {
            VolumeRow row = *volume.row;
            row.bytes = std::max(row.bytes, job.bytes);
            return save(key, volume, std::move(row));
        }
        case Job::Kind::destroy:
            volume.is_missing = false;
            volume.is_released = false;
            for (VolumeKey const& other : waiting_)
                volumes_.at(other).retry.resume();
            for (std::string const& content : waiting_trees_)
                trees_.find(content)->second.retry.resume();
            mark_waiting();
            return save(key, volume, std::nullopt);
        case Job::Kind::resolve:
        case Job::Kind::fetch:
        case Job::Kind::drop:  // jobs of content trees
        case Job::Kind::fetch_certificates:
        case Job::Kind::drop_certificates:
        case Job::Kind::take_snapshot:  // jobs of snapshots
        case Job::Kind::roll_back:
        case Job::Kind::delete_snapshot: return;
    }
}

void Core::save(VolumeKey const& key, Volume& volume, std::optional<VolumeRow> row) {
    SaveId const id{next_id_++};
    saves_[id] = key;
    if (row)
        actions_.push_back(Save{id, *row});
    else
        actions_.push_back(Save{id, Save::EraseVolume{key}});
    volume.saving = Saving<VolumeRow>{id, std::move(row)};
}

void Core::start(Volume& volume, Job job) {
    JobId const id{next_id_++};
    jobs_[id] = job.volume;
    if (job.kind == Job::Kind::build) volume.sub_state = SubState::initial;
    actions_.push_back(StartJob{id, job});
    volume.running = Running{id, std::move(job)};
}

void Core::fail(Volume& volume, Failure failure) {
    volume.retry.failed(std::move(failure), now_, settings_.retry, random());
}

void Core::publish(VolumeKey const& key, Volume& volume) {
    VolumeStatus status = status_of(key, volume);
    if (volume.published == status) return;
    bool const is_created_now = status.state == State::created_volume &&
                                (!volume.published || volume.published->state != State::created_volume);
    volume.published = status;
    actions_.push_back(PublishVolume{std::move(status)});
    if (!is_created_now) return;
    if (auto const found = clones_of_.find(key); found != clones_of_.end())
        marked_.insert(found->second.begin(), found->second.end());
}

VolumeStatus Core::status_of(VolumeKey const& key, Volume const& volume) const {
    VolumeStatus status{.key = key};
    status.publisher = volume.config ? volume.config->publisher : "unknown";
    status.most_bytes = volume.row ? volume.row->bytes : volume.config ? volume.config->most_bytes : 0;
    status.references = (volume.config ? 1 : 0) + users(key);
    status.error = volume.retry.failure();
    if (auto text = conflict(volume)) status.error = Failure{FailureClass::permanent, *std::move(text)};
    if (!volume.row) {
        Tree const* tree = nullptr;
        if (volume.config && volume.config->origin == Origin::download) {
            if (auto const found = trees_.find(volume.config->content); found != trees_.end()) tree = &found->second;
        }
        status.state = tree ? tree->state : State::initial;
        if (tree && !status.error) status.error = tree->retry.failure();
        return status;
    }
    switch (volume.row->stage) {
        case VolumeRow::Stage::intent:
            status.state = State::creating_volume;
            status.sub_state = volume.running && volume.running->job.kind == Job::Kind::destroy
                                   ? SubState::deleting
                                   : std::max(volume.sub_state, SubState::initial);
            break;
        case VolumeRow::Stage::made:
            status.state = State::created_volume;
            status.sub_state = SubState::created;
            break;
        case VolumeRow::Stage::deleting:
            status.state = State::created_volume;
            status.sub_state = SubState::deleting;
            break;
    }
    return status;
}

std::optional<VolumeStatus> Core::status(VolumeKey const& key) const {
    auto const found = volumes_.find(key);
    if (found == volumes_.end()) return std::nullopt;
    return status_of(key, found->second);
}

bool Core::is_verify_only(VolumeKey const& key) const {
    bool has_users = false;
    for (auto i = references_.lower_bound({key, ""}); i != references_.end() && i->first.volume == key; ++i) {
        if (!i->second.config.is_verify_only) return false;
        has_users = true;
    }
    return has_users;
}

std::optional<std::string> Core::writer_of(VolumeKey const& key) const {
    for (auto i = references_.lower_bound({key, ""}); i != references_.end() && i->first.volume == key; ++i)
        if (!i->second.config.is_read_only) return shown_user(i->second.config);
    return std::nullopt;
}

std::size_t Core::users(VolumeKey const& key) const {
    std::size_t count = 0;
    for (auto i = references_.lower_bound({key, ""}); i != references_.end() && i->first.volume == key; ++i)
        ++count;
    return count;
}

/// Why a configuration cannot be had from the volume that exists.
std::optional<std::string> Core::conflict(Volume const& volume) const {
    if (!volume.config || !volume.row || volume.row->stage == VolumeRow::Stage::deleting) return std::nullopt;
    VolumeConfig const& config = *volume.config;
    VolumeRow const& row = *volume.row;
    std::string const remedy = "; generation " + std::to_string(row.key.generation + 1) + " is needed";
    if (config.layout && *config.layout != layout_of(row.format))
        return "it is a " + std::string(name_of(layout_of(row.format))) + remedy;
    if (config.format && *config.format != row.format)
        return "it is of format " + std::string(name_of(row.format)) + remedy;
    if (config.content != row.content) return "it was made from other content" + remedy;
    if (config.is_encrypted != row.is_in_vault)
        return (row.is_in_vault ? std::string("it is encrypted") : std::string("it is not encrypted")) + remedy;
    if (config.most_bytes < row.bytes)
        return "it has " + std::to_string(row.bytes) + " bytes and cannot shrink to " +
               std::to_string(config.most_bytes) + remedy;
    return std::nullopt;
}

/// The state of what a volume begins with; nullopt while that is not complete.
std::optional<State> Core::source_state(Volume const& volume) const {
    VolumeConfig const& config = *volume.config;
    switch (config.origin) {
        case Origin::blank:
        case Origin::received:
        case Origin::cloud_init: return State::loaded;
        case Origin::download: {
            auto const found = trees_.find(config.content);
            if (found == trees_.end() || found->second.state != State::loaded || !found->second.config ||
                is_unchecked(config.content))
                return std::nullopt;
            return State::loaded;
        }
        case Origin::clone: {
            auto const found = config.source ? volumes_.find(*config.source) : volumes_.end();
            if (found == volumes_.end() || !found->second.row || found->second.row->stage != VolumeRow::Stage::made)
                return std::nullopt;
            return State::loaded;
        }
    }
    std::unreachable();
}

std::optional<Failure> Core::lack_of_room(Volume const& volume, std::uint64_t bytes) const {
    FileSystem const file_system = file_system_of(volume.config->is_encrypted);
    auto const left = ledger_.available(file_system);
    if (!left) return Failure{FailureClass::room, "the free space of its file system cannot be found out"};
    if (bytes <= *left) return std::nullopt;
    return Failure{FailureClass::room,
                   "Remaining disk space " + std::to_string(*left) + ", volume needs " + std::to_string(bytes)};
}

void Core::keep_promise(VolumeKey const& key, Volume const& volume) {
    std::optional<VolumeRow> const& row = volume.saving && volume.saving->row ? volume.saving->row : volume.row;
    if (!row) return ledger_.release("volume " + key.text());
    // While it grows, the new size is promised.
    bool const grows = volume.running && volume.running->job.kind == Job::Kind::grow;
    std::uint64_t const bytes = std::max(row->bytes, grows ? volume.running->job.bytes : 0);
    ledger_.promise("volume " + key.text(), file_system_of(row->is_in_vault), bytes, volume.used);
}

}  // namespace triton::volume
