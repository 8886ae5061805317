#include "host/parts/late_pool.h"

#include <atomic>
#include <mutex>
#include <utility>

#include <unistd.h>

#include "host/image/site.h"

namespace triton::parts {

namespace {

using storage::SnapshotName;
using storage::TreeName;

class LatePool final : public storage::Pool {
public:
    LatePool(machine::Layout layout, std::optional<std::chrono::milliseconds> patience)
        : layout_(std::move(layout)), patience_(patience) {}

    [[nodiscard]] storage::Backend kind() const override {
        if (auto const* const pool = opened_.load()) return pool->kind();
        auto const settings = settings_now();
        return settings && !settings->dataset.empty() ? storage::Backend::zfs : storage::Backend::directory;
    }
    [[nodiscard]] std::string path(TreeName const& tree) const override {
        if (auto const* const pool = opened_.load()) return pool->path(tree);
        auto const settings = settings_now();
        std::string const base = (settings ? settings->path : layout_.root) + '/' + tree.text();
        return kind() == storage::Backend::zfs ? base : base + "/@tree";
    }

    Result<> make(TreeName const& tree) override { return TRY(open())->make(tree); }
    Result<> clone(TreeName const& from, SnapshotName const& snapshot, TreeName const& to) override {
        return TRY(open())->clone(from, snapshot, to);
    }
    Result<> snapshot(TreeName const& tree, SnapshotName const& name) override { return TRY(open())->snapshot(tree, name); }
    Result<> freeze(TreeName const& tree, SnapshotName const& name) override { return TRY(open())->freeze(tree, name); }
    Result<> rename_snapshot(TreeName const& tree, SnapshotName const& from, SnapshotName const& to) override {
        return TRY(open())->rename_snapshot(tree, from, to);
    }
    Result<> delete_snapshot(TreeName const& tree, SnapshotName const& name) override {
        return TRY(open())->delete_snapshot(tree, name);
    }
    Result<> rollback(TreeName const& tree, SnapshotName const& name) override { return TRY(open())->rollback(tree, name); }
    Result<> rename(TreeName const& from, TreeName const& to) override { return TRY(open())->rename(from, to); }
    Result<> destroy(TreeName const& tree) override { return TRY(open())->destroy(tree); }
    Result<> set_quota(TreeName const& tree, std::optional<std::uint64_t> bytes) override {
        return TRY(open())->set_quota(tree, bytes);
    }
    Result<std::optional<std::uint64_t>> quota(TreeName const& tree) override { return TRY(open())->quota(tree); }
    Result<std::map<TreeName, std::uint64_t>> quotas(std::vector<TreeName> const& trees) override {
        return TRY(open())->quotas(trees);
    }
    Result<> tune(TreeName const& tree, storage::Tuning const& tuning) override { return TRY(open())->tune(tree, tuning); }
    Result<> set_property(TreeName const& tree, std::string_view key, std::string_view value) override {
        return TRY(open())->set_property(tree, key, value);
    }
    Result<storage::Properties> properties(TreeName const& tree) override { return TRY(open())->properties(tree); }
    Result<> send(TreeName const& tree, SnapshotName const& snapshot, std::optional<SnapshotName> const& from,
                  int fd) override {
        return TRY(open())->send(tree, snapshot, from, fd);
    }
    Result<std::optional<TreeName>> origin(TreeName const& tree) override { return TRY(open())->origin(tree); }
    Result<> send_since_origin(TreeName const& tree, SnapshotName const& snapshot, int fd) override {
        return TRY(open())->send_since_origin(tree, snapshot, fd);
    }
    Result<> receive(TreeName const& tree, int fd) override { return TRY(open())->receive(tree, fd); }
    Result<storage::Usage> usage(TreeName const& tree) override { return TRY(open())->usage(tree); }
    Result<storage::Space> space() override { return TRY(open())->space(); }
    Result<bool> exists(TreeName const& tree) override { return TRY(open())->exists(tree); }
    Result<std::vector<TreeName>> list(std::string_view group) override { return TRY(open())->list(group); }
    Result<std::vector<SnapshotName>> snapshots(TreeName const& tree) override { return TRY(open())->snapshots(tree); }
    Result<std::vector<storage::SnapshotFacts>> snapshot_facts(TreeName const& tree) override {
        return TRY(open())->snapshot_facts(tree);
    }
    Result<UniqueFd> open(TreeName const& tree) override { return TRY(open())->open(tree); }
    [[nodiscard]] std::string dataset(TreeName const& tree) const override {
        auto const* const pool = opened_.load();
        return pool ? pool->dataset(tree) : "";
    }
    Result<std::vector<std::string>> recover() override { return TRY(open())->recover(); }

private:
    [[nodiscard]] Result<storage::Settings> settings_now() const {
        storage::Settings settings = TRY(image::read_site(image::Settings{.root = layout_.root})).storage;
        if (patience_) settings.patience = *patience_;
        return settings;
    }

    Result<storage::Pool*> open() {
        std::lock_guard const alone(opening_);
        if (pool_) return pool_.get();
        storage::Settings const settings = TRY(settings_now());
        if (::access((settings.path + "/@pool/format").c_str(), F_OK) != 0)
            return fail(ErrorKind::not_found, "there is no pool at " + settings.path);
        pool_ = TRY(storage::open_pool(settings));
        opened_ = pool_.get();
        return pool_.get();
    }

    machine::Layout layout_;
    std::optional<std::chrono::milliseconds> patience_;
    std::mutex opening_;
    std::unique_ptr<storage::Pool> pool_;
    std::atomic<storage::Pool*> opened_ =
        nullptr;  // kind, path and dataset are asked by other threads than the one that opens it
};

}  // namespace

std::unique_ptr<storage::Pool> late_host_pool(machine::Layout layout,
                                              std::optional<std::chrono::milliseconds> patience) {
    return std::make_unique<LatePool>(std::move(layout), patience);
}

}  // namespace triton::parts
