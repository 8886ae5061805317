#include "host/storage/directory_pool.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "host/storage/btrfs.h"
#include "host/storage/directory_entries.h"
#include "host/storage/probe.h"
#include "host/storage/properties.h"
#include "host/storage/remove_tree.h"
#include "host/storage/tree_stream.h"
#include "host/storage/workshop.h"
#include "lib/base/digits.h"
#include "lib/base/new_calls.h"
#include "lib/base/read_file.h"
#include "lib/files/copy_file.h"
#include "lib/files/pending_file.h"

namespace triton::storage {

namespace {

constexpr char const* tree_entry = "@tree";
constexpr char const* snapshots_entry = "@snapshots";
constexpr char const* properties_entry = "@properties";
constexpr char const* pool_entry = "@pool";
constexpr std::string_view format_prefix = "triton-pool 1 ";
constexpr std::size_t longest_properties = 1 << 20;
constexpr int most_rounds = 16;  // when another process may interfere at the same moment

Result<UniqueFd> open_again(UniqueFd const& directory) {
    UniqueFd opened = open_directory(directory.get(), ".");
    if (!opened) return fail(errno, "open the tree");
    return opened;
}

/// Errors: those of faccessat(2). A disk that cannot say whether there is a tree has not said that there is none.
Result<bool> has_entry(int directory, std::string const& name) {
    if (entry_exists(directory, name.c_str())) return true;
    if (errno == ENOENT) return false;
    return fail(errno, "look for " + name);
}

/// Whether open_directory() failed because there is no directory of that name, and not for a reason of the system's.
bool is_no_directory(int err) { return err == ENOENT || err == ENOTDIR || err == ELOOP; }

Result<> make_durable(int directory, std::string const& what) {
    if (::fsync(directory) != 0) return fail(errno, "make " + what + " durable");
    return {};
}

std::vector<std::string> components_of(TreeName const& tree) {
    std::vector<std::string> components;
    std::string_view rest = tree.text();
    while (!rest.empty()) {
        std::size_t const slash = std::min(rest.find('/'), rest.size());
        components.emplace_back(rest.substr(0, slash));
        rest.remove_prefix(std::min(slash + 1, rest.size()));
    }
    return components;
}

std::string with_snapshot(TreeName const& tree, SnapshotName const& snapshot) {
    return tree.text() + '@' + snapshot.text();
}

/// An entry of `@snapshots`, such as "00000001@final".
struct SnapshotEntry {
    std::uint64_t number;
    std::string name;
    std::string entry;
};

std::optional<SnapshotEntry> parse_snapshot_entry(std::string const& entry) {
    std::string_view rest = entry;
    std::string_view const digits = take_digits(rest);
    if (digits.size() != 8 || !rest.starts_with('@')) return std::nullopt;
    return SnapshotEntry{std::strtoull(entry.c_str(), nullptr, 10), std::string(rest.substr(1)), entry};
}

std::string print_snapshot_entry(std::uint64_t number, SnapshotName const& name) {
    std::string const digits = std::to_string(number);
    return std::string(8 - std::min<std::size_t>(digits.size(), 8), '0') + digits + '@' + name.text();
}

class DirectoryPool final : public Pool {
public:
    DirectoryPool(UniqueFd root, UniqueFd pool, Workshop building, Workshop trash, Settings const& settings,
                  std::unique_ptr<Trees> trees)
        : root_(std::move(root)),
          pool_(std::move(pool)),
          building_(std::move(building)),
          trash_(std::move(trash)),
          path_(settings.path),
          patience_(settings.patience),
          trees_(std::move(trees)) {}

    [[nodiscard]] Backend kind() const override { return trees_->kind(); }

    Result<> make(TreeName const& tree) override {
        TRY(check_free(tree));
        auto item = TRY(building_.make(tree.text()));
        TRY(trees_->make(item.fd(), tree_entry));
        return publish(std::move(item), tree, Trees::Left::names);
    }

    Result<> clone(TreeName const& from, SnapshotName const& snapshot, TreeName const& to) override {
        auto const holder = TRY(hold(from, Sharing::together));
        UniqueFd const source = TRY(open_snapshot(holder, from, snapshot));
        if (trees_->copies_at_once()) return clone_in_place(source, to);
        TRY(check_free(to));
        auto item = TRY(building_.make(to.text()));
        auto const left = TRY(trees_->copy(source.get(), item.fd(), tree_entry, {}));
        return publish(std::move(item), to, left);
    }

    Result<> snapshot(TreeName const& tree, SnapshotName const& name) override {
        auto const holder = TRY(hold(tree, Sharing::together));
        UniqueFd const content = TRY(open_content(holder, tree));
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        TRY(lock_snapshots(snapshots, tree));
        return add_snapshot(content, snapshots, tree, name);
    }

    Result<> freeze(TreeName const& tree, SnapshotName const& name) override {
        if (trees_->copies_at_once()) return snapshot(tree, name);
        auto const holder = TRY(hold(tree, Sharing::alone));
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        TRY(lock_snapshots(snapshots, tree));
        std::string const entry = TRY(next_snapshot_entry(snapshots, tree, name));
        auto item = TRY(building_.make(tree.text()));
        TRY(trees_->make(item.fd(), tree_entry));
        if (::renameat2(item.fd(), tree_entry, holder.get(), tree_entry, RENAME_EXCHANGE) != 0 ||
            ::renameat2(item.fd(), tree_entry, snapshots.get(), entry.c_str(), RENAME_NOREPLACE) != 0)
            return fail(errno, "make snapshot " + with_snapshot(tree, name));
        TRY(make_durable(holder.get(), with_snapshot(tree, name)));
        TRY(make_durable(snapshots.get(), with_snapshot(tree, name)));
        return item.remove();
    }

    Result<> rename_snapshot(TreeName const& tree, SnapshotName const& from, SnapshotName const& to) override {
        auto const holder = TRY(hold(tree, Sharing::alone));
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        auto const found = TRY(find_snapshot(snapshots, tree, from));
        TRY(next_snapshot_entry(snapshots, tree, to));  // checks that its name is free
        std::string const entry = print_snapshot_entry(found.number, to);
        if (::renameat2(snapshots.get(), found.entry.c_str(), snapshots.get(), entry.c_str(), RENAME_NOREPLACE) != 0)
            return fail(errno, "rename snapshot " + with_snapshot(tree, from));
        return make_durable(snapshots.get(), with_snapshot(tree, to));
    }

    Result<> delete_snapshot(TreeName const& tree, SnapshotName const& name) override {
        auto const holder = TRY(hold(tree, Sharing::alone));  // a clone may be reading it
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        auto const found = TRY(find_snapshot(snapshots, tree, name));
        if (trees_->copies_at_once()) {
            TRY(remove_tree(snapshots.get(), found.entry));
            return make_durable(snapshots.get(), with_snapshot(tree, name));
        }
        auto item = TRY(trash_.make(with_snapshot(tree, name)));
        if (::renameat(snapshots.get(), found.entry.c_str(), item.fd(), tree_entry) != 0)
            return fail(errno, "delete snapshot " + with_snapshot(tree, name));
        TRY(make_durable(snapshots.get(), with_snapshot(tree, name)));
        return item.remove();
    }

    Result<> rollback(TreeName const& tree, SnapshotName const& name) override {
        auto const holder = TRY(hold(tree, Sharing::alone));
        UniqueFd const source = TRY(open_snapshot(holder, tree, name));
        UniqueFd const content = TRY(open_content(holder, tree));
        auto item = TRY(building_.make(tree.text()));
        auto const quota = TRY(trees_->quota(content.get()));
        auto const left = TRY(trees_->copy(source.get(), item.fd(), tree_entry, quota));
        return exchange_content(item, holder, tree, left);
    }

    Result<> rename(TreeName const& from, TreeName const& to) override {
        auto const holder = TRY(hold(from, Sharing::alone));
        UniqueFd const naming = TRY(lock_names());
        TRY(check_free(to));
        UniqueFd const parent = TRY(open_group(from));
        UniqueFd const target = TRY(make_group(to));
        TRY(clear_name(target.get(), components_of(to).back()));
        if (::renameat2(parent.get(), components_of(from).back().c_str(), target.get(),
                        components_of(to).back().c_str(), RENAME_NOREPLACE) != 0)
            return name_failure(errno, "rename " + from.text() + " to " + to.text(), to);
        TRY(make_durable(target.get(), to.text()));
        TRY(make_durable(parent.get(), from.text()));
        remove_empty_groups(from);
        return {};
    }

    Result<> destroy(TreeName const& tree) override {
        auto holder = TRY(hold(tree, Sharing::alone));
        std::optional<Workshop::Item> item;
        {
            UniqueFd const naming = TRY(lock_names());
            UniqueFd const parent = TRY(open_group(tree));
            item.emplace(TRY(trash_.take(parent.get(), components_of(tree).back(), std::move(holder), tree.text())));
            TRY(make_durable(parent.get(), tree.text()));
            remove_empty_groups(tree);
        }
        return item->remove();
    }

    Result<> set_quota(TreeName const& tree, std::optional<std::uint64_t> bytes) override {
        auto const holder = TRY(hold(tree, Sharing::together));
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        TRY(lock_snapshots(snapshots, tree));
        return trees_->set_quota(TRY(open_content(holder, tree)).get(), bytes);
    }

    Result<std::optional<std::uint64_t>> quota(TreeName const& tree) override {
        auto const holder = TRY(find(tree));
        return trees_->quota(TRY(open_content(holder, tree)).get());
    }

    Result<std::map<TreeName, std::uint64_t>> quotas(std::vector<TreeName> const& trees) override {
        std::map<TreeName, std::uint64_t> all;
        for (TreeName const& tree : trees) {
            auto const holder = find(tree);
            auto const content = holder ? open_content(*holder, tree) : std::unexpected(holder.error());
            if (!content && content.error().kind == ErrorKind::not_found) continue;
            if (!content) return std::unexpected(content.error());
            if (trees_->keeps_quotas(content->get())) all[tree] = TRY(trees_->quota(content->get())).value_or(0);
        }
        return all;
    }

    Result<> set_property(TreeName const& tree, std::string_view key, std::string_view value) override {
        TRY(check_property(key, value));
        auto const holder = TRY(hold(tree, Sharing::together));
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        TRY(lock_snapshots(snapshots, tree));
        Properties properties = TRY(read_properties(holder, tree));
        if (value.empty())
            properties.erase(std::string(key));
        else
            properties.insert_or_assign(std::string(key), std::string(value));
        files::Target const target{holder.get(), properties_entry, tree.text() + '/' + properties_entry};
        auto prepared = TRY(files::prepare_file(print_properties(properties), 0600, target, {}));
        TRY(files::publish(std::move(prepared)));
        return make_durable(holder.get(), tree.text());
    }

    Result<Properties> properties(TreeName const& tree) override { return read_properties(TRY(find(tree)), tree); }

    Result<> send(TreeName const& tree, SnapshotName const& snapshot, std::optional<SnapshotName> const& from,
                  int fd) override {
        auto const holder = TRY(hold(tree, Sharing::together));
        UniqueFd content = TRY(open_snapshot(holder, tree, snapshot));
        std::optional<UniqueFd> base;
        if (from) base = TRY(open_snapshot(holder, tree, *from));
        return tree_stream::send({snapshot, from}, std::move(content), std::move(base), fd);
    }

    Result<> receive(TreeName const& tree, int fd) override {
        auto receiver = TRY(tree_stream::Receiver::create(fd));
        return receiver.head().from ? receive_change(tree, receiver) : receive_all(tree, receiver);
    }

    Result<Usage> usage(TreeName const& tree) override {
        auto holder = TRY(hold(tree, Sharing::together));
        UniqueFd const content = TRY(open_content(holder, tree));
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        holder = UniqueFd{};  // the tree's owner decides how long the walk takes, and others may want the tree
        auto const size = TRY(trees_->size(content.get()));
        Usage usage{size.exclusive, size.referenced, TRY(trees_->quota(content.get()))};
        for (SnapshotEntry const& entry : TRY(read_snapshots(snapshots, tree))) {
            UniqueFd const one = open_directory(snapshots.get(), entry.entry);
            if (!one && errno == ENOENT) continue;  // it was deleted meanwhile
            if (!one) return fail(errno, "open snapshot " + entry.entry + " of " + tree.text());
            usage.used += TRY(trees_->size(one.get())).exclusive;
        }
        return usage;
    }

    Result<Space> space() override {
        struct statvfs facts;
        if (::fstatvfs(root_.get(), &facts) != 0) return fail(errno, "look at " + path_);
        Space space{facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize, {}};
        if (facts.f_files != 0) space.inodes_free = facts.f_favail;
        return space;
    }

    Result<bool> exists(TreeName const& tree) override {
        auto const found = find(tree);
        if (!found && found.error().kind != ErrorKind::not_found) return std::unexpected(found.error());
        return found.has_value();
    }

    Result<std::vector<TreeName>> list(std::string_view group) override {
        std::vector<TreeName> found;
        if (group.empty()) {
            TRY(add_trees(root_.get(), {}, found));
        } else {
            TreeName const name = TRY(TreeName::parse(group));
            UniqueFd const directory = TRY(open_group_itself(name));
            if (directory && !TRY(has_entry(directory.get(), tree_entry)))
                TRY(add_trees(directory.get(), name.text() + '/', found));
        }
        std::ranges::sort(found);
        return found;
    }

    Result<std::vector<SnapshotName>> snapshots(TreeName const& tree) override {
        auto const holder = TRY(find(tree));
        std::vector<SnapshotName> names;
        UniqueFd const directory = TRY(open_snapshots(holder, tree));
        for (SnapshotEntry const& entry : TRY(read_snapshots(directory, tree)))
            names.push_back(TRY(SnapshotName::parse(entry.name)));
        return names;
    }

    Result<std::vector<SnapshotFacts>> snapshot_facts(TreeName const& tree) override {
        auto const holder = TRY(find(tree));
        std::vector<SnapshotFacts> all;
        UniqueFd const directory = TRY(open_snapshots(holder, tree));
        for (SnapshotEntry const& entry : TRY(read_snapshots(directory, tree))) {
            UniqueFd const one = open_directory(directory.get(), entry.entry);
            if (!one && errno == ENOENT) continue;  // it has just been deleted
            if (!one) return fail(errno, "open snapshot " + entry.entry + " of " + tree.text());
            SnapshotName const name = TRY(SnapshotName::parse(entry.name));
            all.push_back({.name = name, .created_at = trees_->made_at(one.get())});
        }
        return all;
    }

    Result<UniqueFd> open(TreeName const& tree) override { return open_content(TRY(find(tree)), tree); }

    Result<std::string> snapshot_path(TreeName const& tree, SnapshotName const& name) override {
        auto const holder = TRY(find(tree));
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        auto const found = TRY(find_snapshot(snapshots, tree, name));
        return path_ + '/' + tree.text() + '/' + snapshots_entry + '/' + found.entry;
    }

    [[nodiscard]] std::string path(TreeName const& tree) const override {
        return path_ + '/' + tree.text() + '/' + tree_entry;
    }

    Result<std::vector<std::string>> recover() override {
        std::vector<std::string> built;
        std::vector<std::string> destroyed;
        auto first = building_.recover(path_ + "/@pool/building", built,
                                       [this](std::string const& what) { return remove_half_made(what); });
        auto const second = trash_.recover(path_ + "/@pool/trash", destroyed, {});
        if (first && !second) first = second;
        if (!first) return std::unexpected(std::move(first).error());
        std::vector<std::string> removed;
        for (std::string const& what : built)
            removed.push_back("removed what was left of building " + what);
        for (std::string const& what : destroyed)
            removed.push_back("removed what was left of destroying " + what);
        return removed;
    }

private:
    // --- Names

    /// The directory that contains the tree's own one. Errors: `not_found`.
    Result<UniqueFd> open_group(TreeName const& tree) const { return walk_group(tree, false); }

    Result<UniqueFd> make_group(TreeName const& tree) const { return walk_group(tree, true); }

    /// The directory of a group. Without a descriptor: there is no such group.
    Result<UniqueFd> open_group_itself(TreeName const& name) const {
        auto const parent = open_group(name);
        if (!parent && parent.error().kind == ErrorKind::not_found) return UniqueFd();
        if (!parent) return std::unexpected(parent.error());
        UniqueFd directory = open_directory(parent->get(), components_of(name).back());
        if (!directory && !is_no_directory(errno)) return fail(errno, "open group " + name.text());
        return directory;
    }

    Result<UniqueFd> open_top() const {
        UniqueFd top = open_directory(root_.get(), ".");
        if (!top) return fail(errno, "open pool " + path_);
        return top;
    }

    Result<UniqueFd> walk_group(TreeName const& tree, bool make) const {
        UniqueFd group = TRY(open_top());
        auto components = components_of(tree);
        components.pop_back();
        for (std::string const& name : components) {
            if (make) {
                bool const is_new = ::mkdirat(group.get(), name.c_str(), 0700) == 0;
                if (!is_new && errno != EEXIST) return fail(errno, "make group " + name + " of " + tree.text());
                // otherwise the next step makes everything durable
                if (is_new && !trees_->copies_at_once()) TRY(make_durable(group.get(), tree.text()));
            }
            UniqueFd next = open_directory(group.get(), name);
            if (!next && errno == ENOENT) return no_such_tree(tree);
            if (!next) return fail(errno, "open group " + name + " of " + tree.text());
            group = std::move(next);
        }
        return group;
    }

    static std::unexpected<Error> no_such_tree(TreeName const& tree) {
        return fail(ErrorKind::not_found, "there is no tree " + tree.text());
    }

    /// Checks that a name can be given to a new tree. Errors: `exists`; `refused`.
    Result<> check_free(TreeName const& tree) const {
        UniqueFd group = TRY(open_top());
        std::string path;
        for (std::string const& name : components_of(tree)) {
            path += path.empty() ? name : '/' + name;
            group = open_directory(group.get(), name);
            if (!group && !is_no_directory(errno)) return fail(errno, "open " + path);
            if (!group) return {};
            bool const is_tree = TRY(has_entry(group.get(), tree_entry));
            bool const is_itself = path == tree.text();
            if (is_itself && is_tree) return fail(ErrorKind::exists, "tree " + path + " exists already");
            if (is_itself && TRY(is_left_over(group.get()))) return {};
            if (!is_itself && (is_tree || TRY(is_half_made(group.get()))))
                return fail(ErrorKind::refused, "make tree " + tree.text(), "it would be inside of tree " + path);
        }
        return fail(ErrorKind::refused, "make tree " + tree.text(), "there are trees below that name");
    }

    /// Whether this is what clone_in_place() leaves when it is killed in the middle.
    static Result<bool> is_half_made(int holder) {
        return TRY(has_entry(holder, snapshots_entry)) && !TRY(has_entry(holder, tree_entry));
    }

    /// Whether this is a half-made tree, or an empty group.
    static Result<bool> is_left_over(int holder) {
        if (TRY(is_half_made(holder))) return true;
        bool is_empty = true;
        DirectoryReader reader;
        TRY(reader.read(
            holder,
            [&](std::string const& /*name*/, unsigned char /*type*/) -> Result<> {
                is_empty = false;
                return {};
            }));
        return is_empty;
    }

    /// Removes leftovers at a name that is to be given. To be called while names are locked.
    static Result<> clear_name(int group, std::string const& name) {
        UniqueFd const holder = open_directory(group, name);
        if (!holder && !is_no_directory(errno)) return fail(errno, "open " + name);
        return holder && TRY(is_left_over(holder.get())) ? remove_tree(group, name) : Result<>{};
    }

    static std::unexpected<Error> name_failure(int err, std::string const& what, TreeName const& tree) {
        if (err == EEXIST || err == ENOTEMPTY)
            return fail(ErrorKind::exists, "tree " + tree.text() + " exists already");
        return fail(err, what);
    }

    /// While this lock is held, nobody else gives or takes a name.
    Result<UniqueFd> lock_names() const {
        UniqueFd file{::openat(pool_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
        if (!file) return fail(errno, "open the lock of pool " + path_);
        TRY(lock(file.get(), Sharing::alone, "pool " + path_, patience_));
        return file;
    }

    /// Removes groups that have become empty. To be called while names are locked.
    void remove_empty_groups(TreeName const& tree) const {
        auto components = components_of(tree);
        for (components.pop_back(); !components.empty(); components.pop_back()) {
            std::string path;
            for (std::string const& name : components)
                path += path.empty() ? name : '/' + name;
            if (::unlinkat(root_.get(), path.c_str(), AT_REMOVEDIR) != 0) return;
        }
    }

    /// Gives a tree that was built its name, when it is complete and durable.
    Result<> publish(Workshop::Item item, TreeName const& tree, Trees::Left left) {
        if (::mkdirat(item.fd(), snapshots_entry, 0700) != 0 && errno != EEXIST)
            return fail(errno, "make tree " + tree.text());
        TRY(trees_->settle(item.fd(), left));
        UniqueFd const naming = TRY(lock_names());
        TRY(check_free(tree));
        UniqueFd const group = TRY(make_group(tree));
        TRY(clear_name(group.get(), components_of(tree).back()));
        if (::renameat2(item.workshop(), item.name().c_str(), group.get(), components_of(tree).back().c_str(),
                        RENAME_NOREPLACE) != 0)
            return name_failure(errno, "make tree " + tree.text(), tree);
        item.forget();
        return make_durable(group.get(), tree.text());
    }

    /// Makes a clone in its final place, for file systems where the last step makes everything before it durable, and
    /// costs more than all of that. The directory gets its name first, and is not a tree until its content is there.
    /// Meanwhile an item in the workshop names what would be left over.
    Result<> clone_in_place(UniqueFd const& source, TreeName const& to) {
        auto item = TRY(building_.make(to.text()));
        UniqueFd const naming = TRY(lock_names());
        TRY(check_free(to));
        UniqueFd const group = TRY(make_group(to));
        std::string const name = components_of(to).back();
        if (::mkdirat(group.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
            return fail(errno, "make tree " + to.text());
        UniqueFd const holder = open_directory(group.get(), name);
        if (!holder) return fail(errno, "make tree " + to.text());
        bool const is_prepared = ::mkdirat(holder.get(), snapshots_entry, 0700) == 0 || errno == EEXIST;
        auto const made = is_prepared ? trees_->copy(source.get(), holder.get(), tree_entry, {})
                                      : fail(errno, "make tree " + to.text());
        if (!made) {
            (void)remove_tree(group.get(), name);  // otherwise recover() does that
            return std::unexpected(made.error());
        }
        return item.remove();
    }

    Result<> remove_half_made(std::string const& what) const {
        auto const tree = TreeName::parse(what);
        if (!tree) return {};
        UniqueFd const naming = TRY(lock_names());
        auto const group = open_group(*tree);
        if (!group && group.error().kind == ErrorKind::not_found) return {};
        if (!group) return std::unexpected(group.error());
        TRY(clear_name(group->get(), components_of(*tree).back()));
        remove_empty_groups(*tree);
        return {};
    }

    // --- The directory of a tree

    /// Opens a tree without a lock, for uses that take one look.
    Result<UniqueFd> find(TreeName const& tree) const {
        UniqueFd const group = TRY(open_group(tree));
        UniqueFd holder = open_directory(group.get(), components_of(tree).back());
        if (!holder && errno != ENOENT && errno != ENOTDIR) return fail(errno, "open tree " + tree.text());
        if (!holder || !TRY(has_entry(holder.get(), tree_entry))) return no_such_tree(tree);
        return holder;
    }

    /// Opens a tree with a lock, and makes sure that the name still belongs to it then.
    Result<UniqueFd> hold(TreeName const& tree, Sharing sharing) const {
        for (int attempt = 0; attempt < most_rounds; ++attempt) {
            UniqueFd holder = TRY(find(tree));
            TRY(lock(holder.get(), sharing, "tree " + tree.text(), patience_));
            UniqueFd const again = TRY(find(tree));
            struct stat held;
            struct stat there;
            if (::fstat(holder.get(), &held) != 0 || ::fstat(again.get(), &there) != 0)
                return fail(errno, "look at tree " + tree.text());
            if (held.st_ino == there.st_ino) return holder;
        }
        return fail(ErrorKind::busy, "lock tree " + tree.text(), "it is replaced again and again");
    }

    /// Whether the name still belongs to it.
    [[nodiscard]] Result<bool> is_named(UniqueFd const& holder, TreeName const& tree) const {
        auto const again = find(tree);
        if (!again && again.error().kind == ErrorKind::not_found) return false;
        if (!again) return std::unexpected(again.error());
        struct stat held;
        struct stat there;
        if (::fstat(holder.get(), &held) != 0 || ::fstat(again->get(), &there) != 0)
            return fail(errno, "look at tree " + tree.text());
        return held.st_ino == there.st_ino;
    }

    static Result<UniqueFd> open_content(UniqueFd const& holder, TreeName const& tree) {
        return open_content(holder.get(), tree);
    }
    static Result<UniqueFd> open_content(int holder, TreeName const& tree) {
        UniqueFd content = open_directory(holder, tree_entry);
        if (!content) return fail(errno, "open tree " + tree.text());
        return content;
    }

    Result<> exchange_content(Workshop::Item& item, UniqueFd const& holder, TreeName const& tree, Trees::Left left) {
        UniqueFd const content = TRY(open_content(item.fd(), tree));
        struct stat status;
        if (::fstat(content.get(), &status) != 0) return fail(errno, "look at tree " + tree.text());
        TRY(trees_->settle(item.fd(), left));
        if (::renameat2(item.fd(), tree_entry, holder.get(), tree_entry, RENAME_EXCHANGE) != 0)
            return fail(errno, "replace the content of tree " + tree.text());
        // XFS regards the exchange as a change of the directory itself.
        timespec const times[2] = {status.st_atim, status.st_mtim};
        (void)::futimens(content.get(), times);
        TRY(make_durable(holder.get(), tree.text()));
        return item.remove();
    }

    Result<> add_trees(int directory, std::string const& prefix, std::vector<TreeName>& found) const {
        DirectoryReader reader;
        std::vector<std::string> names;
        TRY(reader.read(
            directory,
            [&](std::string const& name, unsigned char /*type*/) -> Result<> {
                names.push_back(name);
                return {};
            }));
        for (std::string const& name : names) {
            auto const tree = TreeName::parse(prefix + name);  // bounds the depth, and leaves out what is not ours
            if (!tree) continue;
            UniqueFd const below = open_directory(directory, name);
            if (!below && !is_no_directory(errno)) return fail(errno, "open " + tree->text());
            if (!below) continue;
            if (TRY(has_entry(below.get(), tree_entry)))
                found.push_back(*tree);
            else
                TRY(add_trees(below.get(), tree->text() + '/', found));
        }
        return {};
    }

    static Result<Properties> read_properties(UniqueFd const& holder, TreeName const& tree) {
        UniqueFd const file{::openat(holder.get(), properties_entry, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
        if (!file && errno == ENOENT) return Properties{};
        if (!file) return fail(errno, "open the properties of tree " + tree.text());
        return parse_properties(
            TRY(read_open_file(file.get(), tree.text() + '/' + properties_entry, longest_properties)));
    }

    // --- Snapshots

    Result<UniqueFd> open_snapshots(UniqueFd const& holder, TreeName const& tree) const {
        auto snapshots = open_snapshots(holder.get(), tree);
        // Whoever has not locked it may look while it is destroyed.
        bool const is_gone = !snapshots && snapshots.error().kind == ErrorKind::corrupt;
        if (is_gone && !TRY(is_named(holder, tree))) return no_such_tree(tree);
        return snapshots;
    }
    static Result<UniqueFd> open_snapshots(int holder, TreeName const& tree) {
        UniqueFd snapshots = open_directory(holder, snapshots_entry);
        if (!snapshots && !is_no_directory(errno)) return fail(errno, "open the snapshots of tree " + tree.text());
        if (!snapshots)
            return fail(ErrorKind::corrupt, "open tree " + tree.text(), "it has no directory for its snapshots");
        return snapshots;
    }

    Result<> lock_snapshots(UniqueFd const& snapshots, TreeName const& tree) const {
        return lock(snapshots.get(), Sharing::alone, "tree " + tree.text(), patience_);
    }

    /// The snapshots, oldest first.
    static Result<std::vector<SnapshotEntry>> read_snapshots(UniqueFd const& snapshots, TreeName const& tree) {
        std::vector<SnapshotEntry> entries;
        DirectoryReader reader;
        TRY(reader.read(
            snapshots.get(),
            [&](std::string const& name, unsigned char /*type*/) -> Result<> {
                auto entry = parse_snapshot_entry(name);
                if (!entry) return fail(ErrorKind::corrupt, "tree " + tree.text() + " has a snapshot " + name);
                entries.push_back(std::move(*entry));
                return {};
            }));
        std::ranges::sort(entries, {}, &SnapshotEntry::number);
        return entries;
    }

    static Result<SnapshotEntry> find_snapshot(UniqueFd const& snapshots, TreeName const& tree,
                                               SnapshotName const& name) {
        auto const entries = TRY(read_snapshots(snapshots, tree));
        auto const found = std::ranges::find(entries, name.text(), &SnapshotEntry::name);
        if (found == entries.end())
            return fail(ErrorKind::not_found, "there is no snapshot " + with_snapshot(tree, name));
        return *found;
    }

    Result<UniqueFd> open_snapshot(UniqueFd const& holder, TreeName const& tree, SnapshotName const& name) const {
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        auto const found = TRY(find_snapshot(snapshots, tree, name));
        UniqueFd content = open_directory(snapshots.get(), found.entry);
        if (!content) return fail(errno, "open snapshot " + with_snapshot(tree, name));
        return content;
    }

    /// The entry of a new snapshot. To be called while the snapshots are locked. Errors: `exists`.
    static Result<std::string> next_snapshot_entry(UniqueFd const& snapshots, TreeName const& tree,
                                                   SnapshotName const& name) {
        auto const entries = TRY(read_snapshots(snapshots, tree));
        if (std::ranges::find(entries, name.text(), &SnapshotEntry::name) != entries.end())
            return fail(ErrorKind::exists, "snapshot " + with_snapshot(tree, name) + " exists already");
        return print_snapshot_entry(entries.empty() ? 1 : entries.back().number + 1, name);
    }

    /// Adds a snapshot. To be called while the snapshots are locked.
    Result<> add_snapshot(UniqueFd const& content, UniqueFd const& snapshots, TreeName const& tree,
                          SnapshotName const& name) {
        std::string const entry = TRY(next_snapshot_entry(snapshots, tree, name));
        if (trees_->copies_at_once()) {
            (void)TRY(trees_->copy_final(content.get(), snapshots.get(), entry));
            return {};
        }
        auto item = TRY(building_.make(tree.text()));
        auto const left = TRY(trees_->copy_final(content.get(), item.fd(), tree_entry));
        TRY(trees_->settle(item.fd(), left));
        if (::renameat2(item.fd(), tree_entry, snapshots.get(), entry.c_str(), RENAME_NOREPLACE) != 0)
            return fail(errno, "make snapshot " + with_snapshot(tree, name));
        TRY(make_durable(snapshots.get(), with_snapshot(tree, name)));
        return item.remove();
    }

    // --- Streams

    static Result<> receive_content(tree_stream::Receiver& receiver, UniqueFd const& content) {
        return receiver.receive(TRY(open_again(content)));
    }

    Result<> receive_all(TreeName const& tree, tree_stream::Receiver& receiver) {
        TRY(check_free(tree));
        auto item = TRY(building_.make(tree.text()));
        TRY(trees_->make(item.fd(), tree_entry));
        if (::mkdirat(item.fd(), snapshots_entry, 0700) != 0) return fail(errno, "make tree " + tree.text());
        UniqueFd const content = TRY(open_content(item.fd(), tree));
        TRY(receive_content(receiver, content));
        UniqueFd const snapshots = TRY(open_snapshots(item.fd(), tree));
        (void)TRY(
            trees_->copy_final(content.get(), snapshots.get(), print_snapshot_entry(1, receiver.head().snapshot)));
        return publish(std::move(item), tree, Trees::Left::content);
    }

    /// Changes the snapshot first, then the tree: a process that is killed in between leaves both states, and
    /// rollback() gives the new one.
    Result<> receive_change(TreeName const& tree, tree_stream::Receiver& receiver) {
        auto const holder = TRY(hold(tree, Sharing::alone));
        UniqueFd const base = TRY(open_snapshot(holder, tree, *receiver.head().from));
        UniqueFd const old = TRY(open_content(holder, tree));
        UniqueFd now = TRY(open_again(old));
        UniqueFd then = TRY(open_again(base));
        if (!TRY(tree_stream::is_same(std::move(now), std::move(then))))
            return fail(ErrorKind::refused, "receive a change of tree " + tree.text(),
                        "it is not as in its snapshot " + receiver.head().from->text() + " any more");
        auto item = TRY(building_.make(tree.text()));
        auto const quota = TRY(trees_->quota(old.get()));
        (void)TRY(trees_->copy(base.get(), item.fd(), tree_entry, quota));
        UniqueFd const content = TRY(open_content(item.fd(), tree));
        TRY(receive_content(receiver, content));
        UniqueFd const snapshots = TRY(open_snapshots(holder, tree));
        TRY(add_snapshot(content, snapshots, tree, receiver.head().snapshot));
        return exchange_content(item, holder, tree, Trees::Left::content);
    }

    UniqueFd root_;
    UniqueFd pool_;
    Workshop building_;
    Workshop trash_;
    std::string path_;
    std::chrono::milliseconds patience_;
    std::unique_ptr<Trees> trees_;
};

/// Opens the directory of the pool for us alone. Errors: `denied` when it belongs to somebody else, who could change
/// everything in it.
Result<UniqueFd> open_root(std::string const& path) {
    (void)TRY(files::make_directories(path));
    UniqueFd root{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    struct stat status;
    if (!root || ::fstat(root.get(), &status) != 0) return fail(errno, "open pool " + path);
    if (status.st_uid != ::geteuid())
        return fail(ErrorKind::denied, "use " + path + " as a pool",
                    "it belongs to user " + std::to_string(status.st_uid));
    if ((status.st_mode & 0777) != 0700 && ::fchmod(root.get(), 0700) != 0)
        return fail(errno, "close pool " + path + " to others");
    return root;
}

Result<std::optional<Backend>> read_format(int root, std::string const& path) {
    std::string const name = std::string(pool_entry) + "/format";
    UniqueFd const file{::openat(root, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
    if (!file && errno == ENOENT) return std::nullopt;
    if (!file) return fail(errno, "open " + path + '/' + name);
    std::string const text = TRY(read_open_file(file.get(), path + '/' + name, 4096));
    if (!text.starts_with(format_prefix) || !text.ends_with('\n'))
        return fail(ErrorKind::corrupt, path + '/' + name + " does not name a kind of pool that this version knows");
    return parse_backend(std::string_view(text).substr(format_prefix.size(), text.size() - format_prefix.size() - 1));
}

Result<> write_format(int pool, std::string const& path, Backend backend) {
    files::Target const target{pool, "format", path + "/@pool/format"};
    std::string const text = std::string(format_prefix) + std::string(name_of(backend)) + '\n';
    auto prepared = TRY(files::prepare_file(text, 0600, target, {}));
    TRY(files::publish(std::move(prepared)));
    return make_durable(pool, path);
}

/// Whether two names can change places; tries it with directories of its own. OpenZFS before 2.2 and NFS cannot do so.
Result<bool> can_exchange(int pool) {
    auto building = TRY(Workshop::open(pool, "building"));
    auto const one = TRY(building.make("test"));
    auto const other = TRY(building.make("test"));
    if (::renameat2(building.fd(), one.name().c_str(), building.fd(), other.name().c_str(), RENAME_EXCHANGE) == 0)
        return true;
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
    return fail(errno, "exchange two names");
}

/// Whether a directory can have that backend; if not, `unsupported` with the reason.
Result<> check_backend(int root, int pool, std::string const& path, Backend backend) {
    switch (backend) {
        case Backend::btrfs:
            if (btrfs::is_btrfs(root)) return {};
            return fail(ErrorKind::unsupported, "use " + path + " as a pool of kind btrfs", "it is not on btrfs");
        case Backend::reflink:
            if (can_reflink(root)) return {};
            return fail(ErrorKind::unsupported, "use " + path + " as a pool of kind reflink",
                        "its file system cannot share blocks between files");
        case Backend::directory:
            if (TRY(can_exchange(pool))) return {};
            return fail(ErrorKind::unsupported, "use " + path + " as a pool of kind directory",
                        "its file system cannot exchange two names (RENAME_EXCHANGE)");
        case Backend::zfs: break;
    }
    return fail(ErrorKind::unsupported, "use " + path + " as a pool of kind zfs", "no dataset is given");
}

Backend best_backend(int root) {
    if (btrfs::is_btrfs(root)) return Backend::btrfs;
    return can_reflink(root) ? Backend::reflink : Backend::directory;
}

/// What the pool is, or becomes. If two processes open a new one at once, they agree by its lock.
Result<Backend> settle_format(int root, int pool, std::string const& path, std::optional<Backend> wanted) {
    auto const found = TRY(read_format(root, path));
    if (found && wanted && *found != *wanted)
        return fail(ErrorKind::refused, "use " + path + " as a pool of kind " + std::string(name_of(*wanted)),
                    "it was made as " + std::string(name_of(*found)));
    Backend const backend = found.value_or(wanted.value_or(best_backend(root)));
    if (found) return backend;  // checking again takes room, which there may not be now
    TRY(check_backend(root, pool, path, backend));
    TRY(write_format(pool, path, backend));
    return backend;
}

}  // namespace

Result<std::unique_ptr<Pool>> open_directory_pool(Settings const& settings, std::optional<Backend> backend) {
    std::string const& path = settings.path;
    UniqueFd root = TRY(open_root(path));
    if (::mkdirat(root.get(), pool_entry, 0700) != 0 && errno != EEXIST) return fail(errno, "make pool " + path);
    UniqueFd pool = open_directory(root.get(), pool_entry);
    if (!pool) return fail(errno, "open pool " + path);
    TRY(lock(pool.get(), Sharing::alone, "pool " + path, settings.patience));
    Backend const found = TRY(settle_format(root.get(), pool.get(), path, backend));
    auto building = TRY(Workshop::open(pool.get(), "building"));
    auto trash = TRY(Workshop::open(pool.get(), "trash"));
    (void)::flock(pool.get(), LOCK_UN);
    auto trees = found == Backend::btrfs ? make_btrfs_trees() : make_copied_trees(found);
    return std::make_unique<DirectoryPool>(std::move(root), std::move(pool), std::move(building), std::move(trash),
                                           settings, std::move(trees));
}

}  // namespace triton::storage
