#include <algorithm>
#include <utility>

#include "host/volume/core.h"

namespace triton::volume {

void Core::update(HolderKey const& key, Holder& holder) {
    if (!holder.running) advance(key, holder);
    holder.retry.failure() ? (void)waiting_holders_.insert(key) : (void)waiting_holders_.erase(key);
    if (holder.config || holder.running || holder.is_on_disk) {
        publish(key, holder);
        return;
    }
    if (holder.published) actions_.push_back(UnpublishCertificates{key});
    waiting_holders_.erase(key);
    holders_.erase(key);
}

void Core::advance(HolderKey const& key, Holder& holder) {
    bool const has_work = holder.config ? holder.state != State::loaded : holder.is_on_disk;
    if (!has_work) {
        holder.retry.reset();
        return;
    }
    if (!holder.retry.is_due(now_)) return;
    if (!holder.config) return start(holder, {.kind = Job::Kind::drop_certificates, .holder = key});
    holder.state = State::downloading;
    start(holder, {.kind = Job::Kind::fetch_certificates, .holder = key});
}

void Core::done(HolderKey const& key, Holder& holder) {
    Running const running = *std::exchange(holder.running, std::nullopt);
    jobs_.erase(running.id);
    holder.retry.succeeded();
    holder.is_on_disk = running.job.kind == Job::Kind::fetch_certificates;
    if (!holder.is_on_disk || running.is_outdated || !holder.config) return;
    holder.state = State::loaded;
    mark_signed_by(key);
}

/// Content that has waited for these certificates, or was refused because of those before, is looked at again.
void Core::mark_signed_by(HolderKey const& key) {
    for (auto& [id, tree] : trees_) {
        if (!tree.config || !tree.config->signature || tree.config->signature->holder != key) continue;
        tree.retry.reset();
        mark_tree(id);
    }
}

void Core::start(Holder& holder, Job job) {
    JobId const id{next_id_++};
    jobs_[id] = job.holder;
    holder.is_on_disk = true;
    actions_.push_back(StartJob{id, job});
    holder.running = Running{id, std::move(job)};
}

void Core::fail(Holder& holder, Failure failure) {
    holder.retry.failed(std::move(failure), now_, settings_.retry, random());
}

void Core::publish(HolderKey const& key, Holder& holder) {
    CertificatesStatus status{.key = key,
                              .publisher = holder.config ? holder.config->publisher : "unknown",
                              .state = holder.state,
                              .error = holder.retry.failure()};
    if (holder.published == status) return;
    holder.published = status;
    actions_.push_back(PublishCertificates{std::move(status)});
}

/// Whether content cannot be checked yet, because the certificates of its signer are not here.
bool Core::lacks_certificates(TreeConfig const& config) const {
    if (!config.signature || !config.signature->holder) return false;
    auto const found = holders_.find(*config.signature->holder);
    return found == holders_.end() || found->second.state != State::loaded;
}

/// Whether content lacks a check of the signature that is demanded now. Nothing is made of it.
bool Core::is_unchecked(std::string const& content) const {
    auto const found = trees_.find(content);
    if (found == trees_.end() || !found->second.config || !found->second.config->signature) return false;
    Tree const& tree = found->second;
    return !tree.row || tree.row->demand != demand_of(tree.config->signature);
}

void Core::apply(CertificatesSeen const& event) {
    for (HolderKey const& key : event.holders) {
        holders_[key].is_on_disk = true;
        marked_holders_.insert(key);
    }
}

void Core::apply(CertificatesLost const& event) {
    auto const found = holders_.find(event.holder);
    if (found == holders_.end() || found->second.running) return;
    found->second.state = State::initial;
    marked_holders_.insert(event.holder);
}

}  // namespace triton::volume
