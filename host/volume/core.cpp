#include "host/volume/core.h"

#include <algorithm>
#include <array>
#include <utility>

namespace triton::volume {

std::string_view name_of(Job::Kind kind) {
    static constexpr std::array<std::string_view, 11> names{
        "resolve",           "fetch",         "drop",      "build",          "grow", "destroy", "fetch-certificates",
        "drop-certificates", "take-snapshot", "roll-back", "delete-snapshot"};
    static_assert(names.size() == static_cast<std::size_t>(Job::Kind::delete_snapshot) + 1);
    return names[static_cast<std::size_t>(kind)];
}

Core::Core(Settings settings) : settings_(std::move(settings)), ledger_(settings_.ledger) {
    for (std::string const& publisher : settings_.publishers)
        is_complete_[publisher] = false;
}

void Core::on(Event const& event, BootTime now) {
    now_ = std::max(now_, now);
    std::visit([this](auto const& one) { apply(one); }, event);
    update_marked();
}

std::vector<Action> Core::take() { return std::exchange(actions_, {}); }

void Core::update_marked() {
    // An update marks only what depends on the object: certificates before content trees, these before volumes, sources
    // before clones, and volumes before snapshots.
    while (!marked_holders_.empty() || !marked_trees_.empty() || !marked_.empty() || !marked_snapshots_.empty()) {
        if (!marked_holders_.empty()) {
            HolderKey const key = marked_holders_.extract(marked_holders_.begin()).value();
            if (auto const found = holders_.find(key); found != holders_.end()) update(key, found->second);
        } else if (!marked_trees_.empty()) {
            std::string const id = marked_trees_.extract(marked_trees_.begin()).value();
            if (auto const found = trees_.find(id); found != trees_.end()) update(id, found->second);
        } else if (!marked_.empty()) {
            VolumeKey const key = marked_.extract(marked_.begin()).value();
            if (auto const found = volumes_.find(key); found != volumes_.end()) update(key, found->second);
            mark_snapshots_of(key);
        } else {
            SnapshotKey const key = marked_snapshots_.extract(marked_snapshots_.begin()).value();
            if (auto const found = snapshots_.find(key); found != snapshots_.end()) update(key, found->second);
        }
    }
    auto const needs_look = [](Retry const& retry) {
        return retry.failure() &&
               (retry.failure()->failure == FailureClass::room || retry.failure()->failure == FailureClass::vault);
    };
    bool const is_look_needed =
        std::ranges::any_of(waiting_, [&](auto const& key) { return needs_look(volumes_.at(key).retry); }) ||
        std::ranges::any_of(waiting_trees_, [&](auto const& id) { return needs_look(trees_.at(id).retry); }) ||
        std::ranges::any_of(waiting_holders_, [&](auto const& key) { return needs_look(holders_.at(key).retry); }) ||
        std::ranges::any_of(waiting_snapshots_, [&](auto const& key) { return needs_look(snapshots_.at(key).retry); });
    if (!is_look_needed) {
        looked_at_.reset();
    } else if (!looked_at_ || now_ >= *looked_at_ + settings_.look_interval) {
        looked_at_ = now_;
        actions_.push_back(LookAtSpace{});
        actions_.push_back(LookAtVault{});
    }
}

std::optional<BootTime> Core::next() const {
    std::optional<BootTime> first;
    auto const consider = [&first](std::optional<BootTime> time) {
        if (time && (!first || *time < *first)) first = time;
    };
    for (VolumeKey const& key : waiting_) {
        Volume const& volume = volumes_.at(key);
        if (volume.is_in_snapshot) continue;
        if (!volume.running && !volume.saving) consider(volume.retry.next());
        consider(collect_at(volume));
    }
    for (std::string const& id : waiting_trees_) {
        Tree const& tree = trees_.at(id);
        if (!tree.running && !tree.saving) consider(tree.retry.next());
        if (tree.unwanted_since) consider(*tree.unwanted_since + settings_.keep_content_for);
    }
    for (HolderKey const& key : waiting_holders_) {
        Holder const& holder = holders_.at(key);
        if (!holder.running) consider(holder.retry.next());
    }
    for (SnapshotKey const& key : waiting_snapshots_) {
        Snapshot const& snapshot = snapshots_.at(key);
        if (!snapshot.running && !snapshot.saving) consider(snapshot.retry.next());
    }
    if (looked_at_) consider(*looked_at_ + settings_.look_interval);
    return first;
}

bool Core::is_settled() const {
    return jobs_.empty() && saves_.empty() && waiting_.empty() && waiting_trees_.empty() && waiting_holders_.empty() &&
           waiting_snapshots_.empty();
}

void Core::mark_tree(std::string const& id) {
    marked_trees_.insert(id);
    if (auto const found = volumes_of_.find(id); found != volumes_of_.end())
        marked_.insert(found->second.begin(), found->second.end());
}

void Core::mark_waiting() {
    marked_.insert(waiting_.begin(), waiting_.end());
    marked_trees_.insert(waiting_trees_.begin(), waiting_trees_.end());
    marked_holders_.insert(waiting_holders_.begin(), waiting_holders_.end());
    marked_snapshots_.insert(waiting_snapshots_.begin(), waiting_snapshots_.end());
}

template <class Act>
void Core::with_job(JobId job, Act const& act) {
    auto const found = jobs_.find(job);
    if (found == jobs_.end()) return;
    auto const object = found->second;
    if (auto const* const key = std::get_if<VolumeKey>(&object)) {
        act(*key, volumes_.at(*key));
        mark(*key);
    } else if (auto const* const holder = std::get_if<HolderKey>(&object)) {
        act(*holder, holders_.at(*holder));
        marked_holders_.insert(*holder);
    } else if (auto const* const snapshot = std::get_if<SnapshotKey>(&object)) {
        Snapshot& one = snapshots_.at(*snapshot);
        act(*snapshot, one);
        if (!one.running) release(one);
        marked_snapshots_.insert(*snapshot);
    } else {
        auto const& id = std::get<std::string>(object);
        act(id, trees_.find(id)->second);
        mark_tree(id);
    }
}

template <class Act>
void Core::with_save(SaveId save, Act const& act) {
    auto const found = saves_.find(save);
    if (found == saves_.end()) return;
    auto const object = found->second;
    saves_.erase(found);
    if (auto const* const key = std::get_if<VolumeKey>(&object)) {
        act(*key, volumes_.at(*key));
        mark(*key);
    } else if (auto const* const snapshot = std::get_if<SnapshotKey>(&object)) {
        act(*snapshot, snapshots_.at(*snapshot));
        marked_snapshots_.insert(*snapshot);
    } else {
        auto const& id = std::get<std::string>(object);
        act(id, trees_.find(id)->second);
        mark_tree(id);
    }
}

VolumeRow const* Core::row(VolumeKey const& key) const {
    auto const found = volumes_.find(key);
    return found == volumes_.end() || !found->second.row ? nullptr : &*found->second.row;
}

VolumeConfig const* Core::config(VolumeKey const& key) const {
    auto const found = volumes_.find(key);
    return found == volumes_.end() || !found->second.config ? nullptr : &*found->second.config;
}

TreeConfig const* Core::config(std::string_view content) const {
    auto const found = trees_.find(content);
    return found == trees_.end() || !found->second.config ? nullptr : &*found->second.config;
}

TreeRow const* Core::row(std::string_view content) const {
    auto const found = trees_.find(content);
    return found == trees_.end() || !found->second.row ? nullptr : &*found->second.row;
}

CertificatesConfig const* Core::config(HolderKey const& key) const {
    auto const found = holders_.find(key);
    return found == holders_.end() || !found->second.config ? nullptr : &*found->second.config;
}

std::vector<std::string> Core::users_of(VolumeKey const& key) const {
    std::vector<std::string> users;
    for (auto i = references_.lower_bound({key, ""}); i != references_.end() && i->first.volume == key; ++i)
        users.push_back(i->first.user);
    return users;
}

std::vector<ReferenceConfig> Core::references_to(VolumeKey const& key) const {
    std::vector<ReferenceConfig> all;
    for (auto i = references_.lower_bound({key, ""}); i != references_.end() && i->first.volume == key; ++i)
        all.push_back(i->second.config);
    return all;
}

std::vector<VolumeKey> Core::volumes_of(std::string const& content) const {
    auto const found = volumes_of_.find(content);
    if (found == volumes_of_.end()) return {};
    return {found->second.begin(), found->second.end()};
}

std::vector<VolumeRow> Core::made() const {
    std::vector<VolumeRow> rows;
    for (auto const& [key, volume] : volumes_)
        if (volume.row && volume.row->stage == VolumeRow::Stage::made) rows.push_back(*volume.row);
    return rows;
}

std::vector<std::string> Core::contents_of(std::string_view kind, std::string_view id) const {
    std::vector<std::string> contents;
    for (auto const& [content, tree] : trees_)
        if (kind == "contentTree" ? content == id : kind == "image" && tree.row && tree.row->image == id)
            contents.push_back(content);
    return contents;
}

std::vector<Core::Unclaimed> Core::unclaimed() const {
    std::vector<Unclaimed> all;
    for (auto const& [key, volume] : volumes_) {
        if (!volume.row || volume.row->stage != VolumeRow::Stage::made || is_wanted(key, volume)) continue;
        Unclaimed one{.key = key, .reason = "nobody claims it"};
        if (is_in_maintenance_)
            one.reason += ", and nothing is collected during maintenance";
        else if (!are_publishers_complete())
            one.reason += ", but not all publishers have said what they want";
        else
            one.is_collectable = true;
        all.push_back(std::move(one));
    }
    return all;
}

std::uint32_t Core::random() {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(random_ >> 33);
}

// --- events ---

void Core::apply(Loaded const& event) {
    for (VolumeRow const& row : event.volumes) {
        volumes_[row.key].row = row;
        mark(row.key);
    }
    for (TreeRow const& row : event.trees) {
        trees_[row.id].row = row;
        mark_tree(row.id);
    }
    for (SnapshotRow const& row : event.snapshots) {
        Snapshot& snapshot = snapshots_[row.key];
        snapshot.row = row;
        list(row.key, snapshot, row.volumes);
        marked_snapshots_.insert(row.key);
    }
    for (Object const& object : event.objects)
        std::visit([this](auto const& one) { put(one); }, object);
}

void Core::apply(TreesSeen const& event) {
    for (auto& [key, volume] : volumes_) {
        if (volume.row && !event.looked_at.contains(file_system_of(volume.row->is_in_vault))) continue;
        bool const is_missing =
            volume.row && volume.row->stage == VolumeRow::Stage::made && !event.volumes.contains(key);
        if (volume.is_missing && !is_missing) volume.retry.reset();
        volume.is_missing = is_missing;
        mark(key);
    }
}

void Core::apply(Put const& event) {
    std::visit([this](auto const& object) { put(object); }, event.object);
}

namespace {

/// What failed before says nothing about the new configuration, nor does what fails of a job for the old one.
void note_change(auto& object) {
    object.retry.reset();
    if (object.running) object.running->is_outdated = true;
}

}  // namespace

void Core::put(VolumeConfig const& config) {
    Volume& volume = volumes_[config.key];
    if (volume.config && volume.config->source) clones_of_[*volume.config->source].erase(config.key);
    if (volume.config && !volume.config->content.empty()) {
        volumes_of_[volume.config->content].erase(config.key);
        marked_trees_.insert(volume.config->content);
    }
    // A changed configuration is a reason to try again at once; a repeated one is not.
    if (!volume.config || *volume.config != config) note_change(volume);
    volume.config = config;
    volume.is_repeated = true;
    if (config.source) clones_of_[*config.source].insert(config.key);
    if (!config.content.empty()) {
        volumes_of_[config.content].insert(config.key);
        marked_trees_.insert(config.content);
    }
    mark(config.key);
}

void Core::put(TreeConfig const& config) {
    Tree& tree = trees_[config.id];
    if (!tree.config || *tree.config != config) note_change(tree);
    tree.config = config;
    tree.is_repeated = true;
    mark_tree(config.id);
}

/// A qcow2 file grows when nobody writes it, and a volume is rolled back when nobody uses it: other users are a reason
/// to try again.
void Core::note_users(VolumeKey const& key) {
    if (auto const snapshots = snapshots_of_.find(key); snapshots != snapshots_of_.end())
        for (SnapshotKey const& one : snapshots->second)
            snapshots_.at(one).retry.reset();
    mark_snapshots_of(key);
    auto const found = volumes_.find(key);
    if (found == volumes_.end() || !found->second.row || found->second.row->format != Format::qcow2) return;
    found->second.retry.reset();
}

void Core::put(ReferenceConfig const& config) {
    auto const known = references_.find(config.key);
    if (known == references_.end() || known->second.config != config) note_users(config.key.volume);
    references_.insert_or_assign(config.key, Reference{config});
    mark(config.key.volume);
}

void Core::put(CertificatesConfig const& config) {
    Holder& holder = holders_[config.key];
    if (!holder.config || *holder.config != config) {
        note_change(holder);
        holder.state = State::initial;
    }
    holder.config = config;
    holder.is_repeated = true;
    marked_holders_.insert(config.key);
}

void Core::apply(Removed const& event) {
    std::visit([this](auto const& key) { remove(key); }, event.object);
}

void Core::remove(VolumeKey const& key) {
    auto const found = volumes_.find(key);
    if (found == volumes_.end() || !found->second.config) return;
    Volume& volume = found->second;
    if (volume.config->source) clones_of_[*volume.config->source].erase(key);
    if (!volume.config->content.empty()) {
        volumes_of_[volume.config->content].erase(key);
        marked_trees_.insert(volume.config->content);
    }
    volume.config.reset();
    volume.is_released = true;
    volume.retry.reset();
    mark(key);
}

void Core::remove(std::string const& id) {
    auto const found = trees_.find(id);
    if (found == trees_.end() || !found->second.config) return;
    found->second.config.reset();
    found->second.retry.reset();
    mark_tree(id);
}

void Core::remove(ReferenceKey const& key) {
    if (references_.erase(key) == 0) return;
    if (auto const found = volumes_.find(key.volume); found != volumes_.end()) {
        found->second.is_released = true;
        if (!found->second.config) found->second.retry.reset();
    }
    note_users(key.volume);
    mark(key.volume);
}

void Core::remove(HolderKey const& key) {
    auto const found = holders_.find(key);
    if (found == holders_.end() || !found->second.config) return;
    found->second.config.reset();
    found->second.retry.reset();
    found->second.state = State::initial;
    marked_holders_.insert(key);
}

void Core::apply(PublisherRestarted const& event) {
    is_complete_[event.publisher] = false;
    for (auto& [key, volume] : volumes_) {
        if (volume.config && volume.config->publisher == event.publisher) volume.is_repeated = false;
    }
    for (auto& [id, tree] : trees_) {
        if (tree.config && tree.config->publisher == event.publisher) tree.is_repeated = false;
    }
    for (auto& [key, reference] : references_) {
        if (reference.config.publisher == event.publisher) reference.is_repeated = false;
    }
    for (auto& [key, holder] : holders_) {
        if (holder.config && holder.config->publisher == event.publisher) holder.is_repeated = false;
    }
    for (auto& [key, snapshot] : snapshots_) {
        if (snapshot.config && snapshot.config->publisher == event.publisher) snapshot.is_repeated = false;
    }
}

void Core::apply(PublisherComplete const& event) {
    is_complete_[event.publisher] = true;
    std::vector<VolumeKey> volumes;
    std::vector<std::string> trees;
    std::vector<ReferenceKey> references;
    std::vector<HolderKey> holders;
    std::vector<SnapshotKey> snapshots;
    for (auto const& [key, volume] : volumes_) {
        if (volume.config && volume.config->publisher == event.publisher && !volume.is_repeated) volumes.push_back(key);
    }
    for (auto const& [id, tree] : trees_) {
        if (tree.config && tree.config->publisher == event.publisher && !tree.is_repeated) trees.push_back(id);
    }
    for (auto const& [key, reference] : references_) {
        if (reference.config.publisher == event.publisher && !reference.is_repeated) references.push_back(key);
    }
    for (auto const& [key, holder] : holders_) {
        if (holder.config && holder.config->publisher == event.publisher && !holder.is_repeated) holders.push_back(key);
    }
    for (auto const& [key, snapshot] : snapshots_) {
        bool const is_of_publisher = snapshot.config && snapshot.config->publisher == event.publisher;
        if (is_of_publisher && !snapshot.is_repeated) snapshots.push_back(key);
    }
    auto const forget = [this](auto const& keys) {
        for (auto const& key : keys) {
            actions_.push_back(Forget{key});
            remove(key);
        }
    };
    forget(references);
    forget(snapshots);
    forget(volumes);
    forget(trees);
    forget(holders);
    mark_waiting();
}

void Core::apply(JobProgress const& event) {
    with_job(event.job, [&event](auto const&, auto& object) {
        if constexpr (requires { object.sub_state; }) {
            if (event.sub_state > object.sub_state) object.sub_state = event.sub_state;
        } else if constexpr (requires { object.total_bytes; }) {
            // After a mismatch the bytes are fetched again: the one step back that there is.
            bool const is_again = object.state == State::verifying && event.state == State::downloading;
            if (event.state < State::loaded && (event.state > object.state || is_again)) object.state = event.state;
            object.bytes = event.bytes;
            object.total_bytes = event.total_bytes;
        }
    });
}

void Core::apply(JobDone const& event) {
    with_job(event.job, [this, &event](auto const& key, auto& object) {
        if constexpr (requires { object.total_bytes; } || requires { object.busy; })
            done(key, object, event);
        else
            done(key, object);
    });
}

void Core::apply(JobFailed const& event) {
    with_job(event.job, [this, &event](auto const&, auto& object) {
        jobs_.erase(event.job);
        Running const running = *std::exchange(object.running, std::nullopt);
        if constexpr (requires { object.busy; })
            if (gives_up(object, running.job.kind, event.failure)) return;
        if (running.is_outdated) return;
        fail(object, event.failure);
        // What is free now was not enough; without a pause the job would fail again and again.
        if (event.failure.failure == FailureClass::room && object.retry.failure()->failure == FailureClass::room)
            object.retry.pause(now_ + settings_.look_interval);
    });
}

void Core::apply(JobCancelled const& event) {
    with_job(event.job, [this, &event](auto const&, auto& object) {
        jobs_.erase(event.job);
        object.running.reset();
    });
}

void Core::apply(Saved const& event) {
    with_save(event.save, [](auto const&, auto& object) {
        object.row = std::move(object.saving->row);
        object.saving.reset();
        object.retry.succeeded();
    });
}

void Core::apply(SaveFailed const& event) {
    with_save(event.save, [this, &event](auto const&, auto& object) {
        object.saving.reset();
        Failure failure = event.failure;
        // A machine that holds a volume refuses the row of a rollback. It can let go before anybody here notices it.
        if constexpr (requires { object.busy; })
            if (failure.failure == FailureClass::permanent) failure.failure = FailureClass::transient;
        fail(object, std::move(failure));
    });
}

void Core::apply(SpaceSeen const& event) {
    std::size_t const before = seen_space_.size();
    seen_space_.insert(event.looked_at.begin(), event.looked_at.end());
    bool const is_first = seen_space_.size() > before;
    if (event.is_one_file_system) ledger_.set_one_file_system(*event.is_one_file_system);
    for (auto const& [file_system, bytes] : event.free)
        ledger_.set_free(file_system, bytes);
    for (auto const& [key, bytes] : event.used) {
        auto const found = volumes_.find(key);
        if (found == volumes_.end()) continue;
        found->second.used = bytes;
        keep_promise(key, found->second);
    }
    mark_waiting();
    if (!is_first) return;
    for (auto const& [key, volume] : volumes_)
        mark(key);
    for (auto const& [id, tree] : trees_)
        mark_tree(id);
}

void Core::apply(VaultSeen const& event) {
    bool const is_other = is_unlocked_ != event.is_unlocked;
    is_unlocked_ = event.is_unlocked;
    if (!event.is_unlocked && !event.reason.empty()) vault_problem_ = event.reason;
    mark_waiting();
    if (!is_other) return;
    for (auto const& [key, volume] : volumes_)
        if (volume.row && volume.row->is_in_vault) mark(key);
}

void Core::apply(MaintenanceSet const& event) {
    is_in_maintenance_ = event.is_on;
    mark_waiting();
}

void Core::apply(RetryAsked const& /*event*/) {
    for (VolumeKey const& key : waiting_)
        volumes_.at(key).retry.reset();
    for (std::string const& id : waiting_trees_)
        trees_.at(id).retry.reset();
    for (HolderKey const& key : waiting_holders_)
        holders_.at(key).retry.reset();
    for (SnapshotKey const& key : waiting_snapshots_)
        snapshots_.at(key).retry.reset();
    mark_waiting();
}

void Core::apply(CollectAsked const& /*event*/) {
    for (Unclaimed const& one : unclaimed()) {
        if (!one.is_collectable) continue;
        volumes_.at(one.key).is_released = true;
        mark(one.key);
    }
}

void Core::apply(ContentLost const& event) {
    auto const found = trees_.find(event.content);
    if (found == trees_.end()) return;
    Tree& tree = found->second;
    if (!tree.row || !tree.row->is_loaded || tree.saving || tree.running) return;
    // As after bytes that turned out to be wrong: it is fetched again, with the digest that it has.
    TreeRow row = *tree.row;
    row.is_loaded = false;
    tree.state = State::downloading;
    tree.bytes = 0;
    save(event.content, tree, std::move(row));
    mark_tree(event.content);
}

void Core::apply(TimePassed const& /*event*/) { mark_waiting(); }

}  // namespace triton::volume
