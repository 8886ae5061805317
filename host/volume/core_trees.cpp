#include <algorithm>
#include <utility>

#include "host/volume/core.h"

namespace triton::volume {

void Core::update(std::string const& id, Tree& tree) {
    if (!tree.saving && !tree.running) advance(id, tree);
    bool const is_wanted_now = tree.config || users(id) > 0;
    bool const is_fetching = tree.running && tree.running->job.kind != Job::Kind::drop;
    if (is_fetching && !is_wanted_now && !tree.running->is_cancelled) {
        tree.running->is_cancelled = true;
        actions_.push_back(CancelJob{tree.running->id});
    }
    if (tree.running && tree.running->job.kind == Job::Kind::fetch)
        ledger_.promise("content " + id, FileSystem::clear, tree.running->job.bytes, tree.bytes);
    else
        ledger_.release("content " + id);
    bool const is_waiting = tree.retry.failure() || tree.unwanted_since;
    is_waiting ? (void)waiting_trees_.insert(id) : (void)waiting_trees_.erase(id);
    if (tree.config || tree.row || tree.saving || tree.running) {
        publish(id, tree);
        return;
    }
    if (tree.published) actions_.push_back(UnpublishTree{id});
    waiting_trees_.erase(id);
    trees_.erase(trees_.find(id));
}

void Core::advance(std::string const& id, Tree& tree) {
    if (!tree.config && users(id) == 0) return drop_unwanted(id, tree);
    tree.unwanted_since.reset();
    if (tree.row && tree.row->is_loaded) tree.state = State::loaded;
    bool const is_other =
        tree.config && tree.row && !tree.config->digest.empty() && tree.config->digest != tree.row->digest;
    // A signature that was not demanded when it was fetched is checked before anything more is made of it.
    if (tree.row && tree.row->is_loaded && is_unchecked(id)) {
        TreeRow row = *tree.row;
        row.is_loaded = false;
        tree.state = State::downloading;
        return save(id, tree, std::move(row));
    }
    if (!tree.retry.is_due(now_)) return;
    if (is_other) return start(tree, {.kind = Job::Kind::drop, .content = id});
    if (tree.row && tree.row->is_loaded) {
        tree.retry.reset();
        return;
    }
    if (!tree.config) return;  // a volume wants it, and nobody says what it is
    if (!tree.row && tree.config->digest.empty()) {
        tree.state = std::max(tree.state, State::resolving_tag);
        return start(tree, {.kind = Job::Kind::resolve, .content = id});
    }
    if (!tree.row) return save(id, tree, TreeRow{.id = id, .digest = tree.config->digest});
    tree.state = std::max(tree.state, State::resolved_tag);
    if (!seen_space_.contains(FileSystem::clear)) return;
    if (lacks_certificates(*tree.config)) {
        tree.retry.reset();
        return;
    }
    std::uint64_t const bytes = tree.config->most_bytes;
    if (auto const left = ledger_.available(FileSystem::clear); !left || bytes > *left)
        return fail(tree, {FailureClass::room, left ? "Remaining disk space " + std::to_string(*left) +
                                                          ", content needs " + std::to_string(bytes)
                                                    : "the free space of the pool cannot be found out"});
    tree.state = std::max(tree.state, State::downloading);
    start(tree, {.kind = Job::Kind::fetch,
                 .content = id,
                 .digest = tree.row->digest,
                 .bytes = bytes,
                 .demand = demand_of(tree.config->signature)});
}

void Core::drop_unwanted(std::string const& id, Tree& tree) {
    if (!tree.row) {
        tree.retry.reset();
        tree.unwanted_since.reset();
        return;
    }
    if (!tree.unwanted_since) tree.unwanted_since = now_;
    if (now_ < *tree.unwanted_since + settings_.keep_content_for || !tree.retry.is_due(now_)) return;
    start(tree, {.kind = Job::Kind::drop, .content = id});
}

void Core::done(std::string const& id, Tree& tree, JobDone const& event) {
    Job const job = tree.running->job;
    jobs_.erase(tree.running->id);
    tree.running.reset();
    tree.retry.succeeded();
    switch (job.kind) {
        case Job::Kind::resolve: return save(id, tree, TreeRow{.id = id, .digest = event.digest});
        case Job::Kind::fetch: {
            TreeRow row = *tree.row;
            row.is_loaded = true;
            row.bytes = event.bytes;
            row.image = event.image;
            row.demand = job.demand;
            row.signed_by = event.signed_by;
            return save(id, tree, std::move(row));
        }
        case Job::Kind::drop:
            tree.state = State::initial;
            tree.bytes = tree.total_bytes = 0;
            tree.unwanted_since.reset();
            return save(id, tree, std::nullopt);
        case Job::Kind::build:
        case Job::Kind::grow:
        case Job::Kind::destroy:  // jobs of volumes
        case Job::Kind::fetch_certificates:
        case Job::Kind::drop_certificates:
        case Job::Kind::take_snapshot:
        case Job::Kind::roll_back:
        case Job::Kind::delete_snapshot: return;
    }
}

void Core::save(std::string const& id, Tree& tree, std::optional<TreeRow> row) {
    SaveId const save{next_id_++};
    saves_[save] = id;
    if (row)
        actions_.push_back(Save{save, *row});
    else
        actions_.push_back(Save{save, Save::EraseTree{id}});
    tree.saving = Saving<TreeRow>{save, std::move(row)};
}

void Core::start(Tree& tree, Job job) {
    JobId const id{next_id_++};
    jobs_[id] = job.content;
    actions_.push_back(StartJob{id, job});
    tree.running = Running{id, std::move(job)};
}

void Core::fail(Tree& tree, Failure failure) { tree.retry.failed(std::move(failure), now_, settings_.retry, random()); }

void Core::publish(std::string const& id, Tree& tree) {
    TreeStatus status = status_of(id, tree);
    if (tree.published == status) return;
    tree.published = status;
    actions_.push_back(PublishTree{std::move(status)});
    if (auto const found = volumes_of_.find(id); found != volumes_of_.end())
        marked_.insert(found->second.begin(), found->second.end());
}

TreeStatus Core::status_of(std::string const& id, Tree const& tree) const {
    return {.id = id,
            .state = tree.state,
            .digest = tree.row ? tree.row->digest : "",
            .bytes = tree.row && tree.row->is_loaded ? tree.row->bytes : tree.bytes,
            .total_bytes = tree.row && tree.row->is_loaded ? tree.row->bytes : tree.total_bytes,
            .references = (tree.config ? 1 : 0) + users(id),
            .signed_by = tree.row && tree.row->is_loaded ? tree.row->signed_by : "",
            .error = tree.retry.failure()};
}

std::optional<TreeStatus> Core::status(std::string_view content) const {
    auto const found = trees_.find(content);
    if (found == trees_.end()) return std::nullopt;
    return status_of(found->first, found->second);
}

std::size_t Core::users(std::string const& id) const {
    auto const found = volumes_of_.find(id);
    return found == volumes_of_.end() ? 0 : found->second.size();
}

}  // namespace triton::volume
