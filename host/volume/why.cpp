#include <string>
#include <string_view>

#include "host/volume/core.h"

namespace triton::volume {

namespace {

constexpr std::string_view waits_for_space = "it waits for the first answer about the free space of the disk";

std::string shown_time(BootTime time) {
    auto const seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
    return seconds < 120 ? std::to_string(seconds) + " s" : std::to_string((seconds + 59) / 60) + " min";
}

std::string shown_failure(Retry const& retry, BootTime now) {
    std::string text = retry.failure()->text + ", for " + shown_time(now - retry.since());
    switch (retry.failure()->failure) {
        case FailureClass::transient:
        case FailureClass::server:
            return text + "; the next attempt is in " +
                   shown_time(std::max(BootTime(0), retry.next().value_or(now) - now));
        case FailureClass::room: return text + "; it is tried when there is room";
        case FailureClass::vault: return text + "; it is tried when the vault is unlocked";
        case FailureClass::permanent:
            return text + "; it is tried after a change of the configuration, or after `volumeadm retry`";
    }
    std::unreachable();
}

}  // namespace

std::vector<std::string> Core::why(VolumeKey const& key) const {
    auto const found = volumes_.find(key);
    if (found == volumes_.end()) return {"no configuration names volume " + key.text() + ", and it does not exist"};
    Volume const& volume = found->second;
    VolumeStatus const status = status_of(key, volume);
    std::vector<std::string> lines{
        "volume " + key.text() + " is " + std::string(name_of(status.state)) +
        (status.sub_state == SubState::none ? "" : "/" + std::string(name_of(status.sub_state)))};
    if (volume.running) lines.push_back("job " + std::string(name_of(volume.running->job.kind)) + " is running");
    if (volume.saving) lines.emplace_back("its row is being saved");
    if (auto const text = conflict(volume)) lines.push_back(*text);
    FileSystem const file_system = file_system_of(volume.config && volume.config->is_encrypted);
    if (volume.retry.failure()) {
        lines.push_back(shown_failure(volume.retry, now_));
        if (volume.retry.failure()->failure == FailureClass::room) {
            lines.push_back(std::to_string(ledger_.outstanding(file_system)) +
                            " bytes are promised to others and not written yet");
        }
    }
    bool const wants_room = volume.config && (!volume.row || volume.config->most_bytes > volume.row->bytes);
    if (wants_room && !seen_space_.contains(file_system)) lines.emplace_back(waits_for_space);
    if (volume.config && !volume.row && !volume.saving) {
        if (volume.config->origin == Origin::download && !source_state(volume)) {
            auto const tree = trees_.find(volume.config->content);
            if (tree == trees_.end() || !tree->second.config)
                lines.push_back("it waits for content tree " + volume.config->content +
                                ", which nobody has configured");
            else
                lines.push_back("it waits for content tree " + volume.config->content + ", which is " +
                                std::string(name_of(tree->second.state)));
            if (tree != trees_.end() && tree->second.retry.failure())
                lines.push_back(shown_failure(tree->second.retry, now_));
        } else if (volume.config->origin == Origin::clone && !source_state(volume)) {
            lines.push_back("it waits for volume " + (volume.config->source ? volume.config->source->text() : "?") +
                            ", which does not exist yet");
        } else if (is_verify_only(key)) {
            lines.emplace_back("its users only want its content verified; it is created when one wants more");
        }
    }
    for (auto i = references_.lower_bound({key, ""}); i != references_.end() && i->first.volume == key; ++i)
        lines.push_back("it is used by " + shown_user(i->second.config));
    if (volume.unclaimed_since)
        lines.push_back("nobody claims it; it is removed in " +
                        shown_time(std::max(BootTime(0), *collect_at(volume) - now_)));
    else if (volume.row && !is_wanted(key, volume) && !volume.is_released && !are_publishers_complete())
        lines.emplace_back("nobody claims it; its time begins when all publishers are complete");
    return lines;
}

std::vector<std::string> Core::why(SnapshotKey const& key) const {
    auto const found = snapshots_.find(key);
    if (found == snapshots_.end()) return {"no configuration names snapshot " + key.text() + ", and it does not exist"};
    Snapshot const& snapshot = found->second;
    SnapshotStatus const status = status_of(key, snapshot);
    std::vector<std::string> lines{"snapshot " + key.text() + " is " + std::string(name_of(status.state))};
    if (snapshot.running) lines.push_back("job " + std::string(name_of(snapshot.running->job.kind)) + " is running");
    if (snapshot.saving) lines.emplace_back("its row is being saved");
    if (snapshot.retry.failure())
        lines.push_back(shown_failure(snapshot.retry, now_));
    else if (status.error)
        lines.push_back(status.error->text);
    bool const is_taken = snapshot.row && snapshot.row->stage != SnapshotRow::Stage::intent;
    if (auto const lacking = is_taken ? std::nullopt : lacking_volume(status.volumes)) {
        auto const volume = volumes_.find(*lacking);
        bool const is_configured = volume != volumes_.end() && volume->second.config;
        lines.push_back("it waits for volume " + lacking->text() +
                        (is_configured ? ", which is not made yet" : ", which nobody has configured"));
    }
    for (VolumeKey const& one : status.volumes)
        if (auto const volume = volumes_.find(one); volume != volumes_.end() && volume->second.running)
            lines.push_back("job " + std::string(name_of(volume->second.running->job.kind)) + " of volume " +
                            one.text() + " is running");
    return lines;
}

std::vector<std::string> Core::why(std::string_view content) const {
    auto const found = trees_.find(content);
    if (found == trees_.end())
        return {"no configuration names content tree " + std::string(content) + ", and nothing of it is here"};
    Tree const& tree = found->second;
    std::vector<std::string> lines{"content tree " + found->first + " is " + std::string(name_of(tree.state))};
    if (tree.running) lines.push_back("job " + std::string(name_of(tree.running->job.kind)) + " is running");
    bool const is_loaded = tree.row && tree.row->is_loaded;
    if (tree.config && !is_loaded && !seen_space_.contains(FileSystem::clear)) lines.emplace_back(waits_for_space);
    if (tree.retry.failure()) lines.push_back(shown_failure(tree.retry, now_));
    if (tree.config && !is_loaded && lacks_certificates(*tree.config)) {
        HolderKey const& key = *tree.config->signature->holder;
        auto const holder = holders_.find(key);
        bool const is_configured = holder != holders_.end() && holder->second.config;
        lines.push_back("it waits for the certificates of " + key.text() +
                        (is_configured ? "" : ", which nobody has configured"));
        if (is_configured && holder->second.retry.failure()) lines.push_back(shown_failure(holder->second.retry, now_));
    }
    if (is_loaded && !tree.row->signed_by.empty()) lines.push_back("it is signed by " + tree.row->signed_by);
    if (!tree.config && users(found->first) > 0) lines.emplace_back("a volume wants it, and nobody says what it is");
    if (auto const volumes = volumes_of_.find(content); volumes != volumes_of_.end()) {
        for (VolumeKey const& key : volumes->second)
            lines.push_back("volume " + key.text() + " is made from it");
    }
    if (!tree.config && users(found->first) == 0) lines.emplace_back("nobody wants it; its content will be given up");
    return lines;
}

std::vector<std::string> Core::why(HolderKey const& key) const {
    auto const found = holders_.find(key);
    if (found == holders_.end())
        return {"no configuration names the certificates of " + key.text() + ", and none of them are here"};
    Holder const& holder = found->second;
    std::vector<std::string> lines{"the certificates of " + key.text() + " are " + std::string(name_of(holder.state))};
    if (holder.running) lines.push_back("job " + std::string(name_of(holder.running->job.kind)) + " is running");
    if (holder.retry.failure()) lines.push_back(shown_failure(holder.retry, now_));
    for (auto const& [id, tree] : trees_)
        if (tree.config && tree.config->signature && tree.config->signature->holder == key)
            lines.push_back("content tree " + id + " must be signed by one of them");
    if (!holder.config) lines.emplace_back("nobody wants them; they will be removed");
    return lines;
}

}  // namespace triton::volume
