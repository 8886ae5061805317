#pragma once

#include <functional>
#include <map>
#include <optional>

#include "host/storage/pool.h"

namespace triton::machine {

/// A pool that hands everything on to another one, but for what a test makes it refuse.
class OtherPool final : public storage::Pool {
public:
    using Tree = storage::TreeName;
    using Snapshot = storage::SnapshotName;
    using Bytes = std::optional<std::uint64_t>;

    explicit OtherPool(storage::Pool& inner) : inner_(inner), backend(inner.kind()) {}

private:
    storage::Pool& inner_;
    std::map<Tree, std::uint64_t> set_limits_ = {};  // as set

public:
    storage::Backend backend;  ///< what it says it is
    std::function<Result<>(Tree const&)> before_destroy = {};
    std::function<Result<>(Tree const&)> after_destroy = {};
    std::function<Result<>(Snapshot const&)> before_delete_snapshot = {};
    bool is_looking = false;  ///< for that, before the first snapshot is deleted
    std::function<Result<>(Tree const&, Bytes)> before_set_quota = {};
    std::map<Tree, std::uint64_t> limits = {};  ///< trees that have limits, as if the file system kept them; 0: none

    [[nodiscard]] storage::Backend kind() const override { return backend; }
    Result<> destroy(Tree const& tree) override {
        if (before_destroy) TRY(before_destroy(tree));
        TRY(inner_.destroy(tree));
        return after_destroy ? after_destroy(tree) : Result<>();
    }
    Result<> delete_snapshot(Tree const& tree, Snapshot const& name) override {
        if (before_delete_snapshot) TRY(before_delete_snapshot(name));
        return inner_.delete_snapshot(tree, name);
    }
    Result<> check_unused(Tree const& tree, std::vector<Snapshot> const& names) override {
        for (Snapshot const& name : names)
            if (before_delete_snapshot && is_looking) TRY(before_delete_snapshot(name));
        return inner_.check_unused(tree, names);
    }
    Result<> set_quota(Tree const& tree, Bytes bytes) override {
        if (before_set_quota) TRY(before_set_quota(tree, bytes));
        set_limits_[tree] = bytes.value_or(0);
        if (limits.contains(tree)) limits[tree] = bytes.value_or(0);
        // The directory below a test has no quotas.
        if (auto done = inner_.set_quota(tree, bytes); done || done.error().kind != ErrorKind::unsupported) return done;
        return {};
    }

    Result<> make(Tree const& tree) override { return inner_.make(tree); }
    Result<> clone(Tree const& from, Snapshot const& name, Tree const& to) override {
        return inner_.clone(from, name, to);
    }
    Result<> snapshot(Tree const& tree, Snapshot const& name) override { return inner_.snapshot(tree, name); }
    Result<> rename_snapshot(Tree const& tree, Snapshot const& from, Snapshot const& to) override {
        return inner_.rename_snapshot(tree, from, to);
    }
    Result<> rollback(Tree const& tree, Snapshot const& name) override { return inner_.rollback(tree, name); }
    Result<> rename(Tree const& from, Tree const& to) override {
        TRY(inner_.rename(from, to));
        if (limits.contains(to)) limits[to] = set_limits_[from];
        return {};
    }
    Result<Bytes> quota(Tree const& tree) override { return inner_.quota(tree); }
    Result<std::map<Tree, std::uint64_t>> quotas(std::vector<Tree> const& trees) override {
        if (limits.empty()) return inner_.quotas(trees);
        std::map<Tree, std::uint64_t> found;
        for (Tree const& tree : trees)
            if (auto const limit = limits.find(tree); limit != limits.end()) found.insert(*limit);
        return found;
    }
    Result<> set_property(Tree const& tree, std::string_view key, std::string_view value) override {
        return inner_.set_property(tree, key, value);
    }
    Result<storage::Properties> properties(Tree const& tree) override { return inner_.properties(tree); }
    Result<> send(Tree const& tree, Snapshot const& name, std::optional<Snapshot> const& from, int fd) override {
        return inner_.send(tree, name, from, fd);
    }
    Result<> receive(Tree const& tree, int fd) override { return inner_.receive(tree, fd); }
    Result<storage::Usage> usage(Tree const& tree) override { return inner_.usage(tree); }
    Result<storage::Space> space() override { return inner_.space(); }
    Result<bool> exists(Tree const& tree) override { return inner_.exists(tree); }
    Result<std::vector<Tree>> list(std::string_view group) override { return inner_.list(group); }
    Result<std::vector<Snapshot>> snapshots(Tree const& tree) override { return inner_.snapshots(tree); }
    Result<std::vector<storage::SnapshotFacts>> snapshot_facts(Tree const& tree) override {
        return inner_.snapshot_facts(tree);
    }
    Result<UniqueFd> open(Tree const& tree) override { return inner_.open(tree); }
    [[nodiscard]] std::string path(Tree const& tree) const override { return inner_.path(tree); }
    Result<std::vector<std::string>> recover() override { return inner_.recover(); }
};

}  // namespace triton::machine
