#include "host/storage/zfs_pool.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/properties.h"
#include "host/storage/random_name.h"
#include "host/storage/workshop.h"
#include "host/storage/zfs_command.h"
#include "lib/base/mount_table.h"
#include "lib/base/read_file.h"
#include "lib/files/copy_file.h"
#include "lib/files/pending_file.h"
#include "lib/json/text.h"

namespace triton::storage {

namespace {

using Pace = ZfsCommand::Pace;

constexpr std::string_view of_groups = "off";  // canmount
constexpr std::size_t longest_mounts = 16U << 20U;
constexpr std::size_t most_asked = 1000;  // snapshots in one command line
constexpr char const* format = "triton-pool 1 zfs\n";

std::string parent_of(std::string const& name) {
    std::size_t const slash = name.rfind('/');
    return slash == name.npos ? std::string() : name.substr(0, slash);
}

std::string last_of(std::string const& name) { return name.substr(name.rfind('/') + 1); }

Result<std::uint64_t> parse_number(std::string const& text, std::string const& attempted) {
    std::uint64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
        return fail(ErrorKind::internal, attempted, "zfs printed \"" + text + "\" for a number");
    return number;
}

/// Whether something is mounted on a directory: it is then on another file system than its parent.
bool is_mount_point(std::string const& path) {
    struct stat own;
    struct stat parent;
    return ::lstat(path.c_str(), &own) == 0 && S_ISDIR(own.st_mode) && ::lstat((path + "/..").c_str(), &parent) == 0 &&
           own.st_dev != parent.st_dev;
}

/// A name below .building or .trash with a random number at its end. It is locked while this exists, by the byte with
/// that number in one file. The file need not be that long (fcntl(2), open file description locks), so this works in a
/// full pool, too.
class Claim {
public:
    /// Returns nothing when somebody else has the name, or it is not one of ours.
    static Result<std::optional<Claim>> try_make(std::string const& locks, std::string const& name) {
        std::string_view const digits = std::string_view(name).substr(name.rfind('-') + 1);
        std::uint64_t number = 0;
        auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
        if (error != std::errc() || digits.size() != random_digits) return std::nullopt;
        UniqueFd file{::open(locks.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)};
        if (!file) return fail(errno, "open " + locks);
        struct flock range{};
        range.l_type = F_WRLCK;
        range.l_start = static_cast<off_t>(number >> 2U);
        range.l_len = 1;
        if (::fcntl(file.get(), F_OFD_SETLK, &range) == 0) return Claim(std::move(file));
        if (errno == EAGAIN || errno == EACCES) return std::nullopt;
        return fail(errno, "lock " + locks);
    }

private:
    static constexpr std::size_t random_digits = 16;
    explicit Claim(UniqueFd file) : file_(std::move(file)) {}
    UniqueFd file_;
};

class ZfsPool final : public Pool {
public:
    ZfsPool(ZfsCommand zfs, Settings const& settings)
        : zfs_(std::move(zfs)), dataset_(settings.dataset), path_(settings.path), patience_(settings.patience) {}

    [[nodiscard]] Backend kind() const override { return Backend::zfs; }

    Result<> make(TreeName const& tree) override {
        std::string const what = "make tree " + tree.text();
        TRY(prepare_group(tree));
        return made(zfs_.run({what, {"create", full(tree)}}), tree);
    }

    Result<> clone(TreeName const& from, SnapshotName const& snapshot, TreeName const& to) override {
        TRY(require(from));
        TRY(prepare_group(to));
        std::string const source = full(from) + '@' + snapshot.text();
        auto done = zfs_.run(
            {"clone " + from.text() + '@' + snapshot.text() + " to tree " + to.text(), {"clone", source, full(to)}});
        bool const has_group = done || done.error().reason.find("parent") == std::string::npos;
        if (!done && done.error().kind == ErrorKind::not_found && has_group) return no_such_snapshot(from, snapshot);
        return made(std::move(done), to);
    }

    Result<> snapshot(TreeName const& tree, SnapshotName const& name) override {
        TRY(require(tree));
        TRY(check_name(name));
        auto const done =
            zfs_.run({"make snapshot " + shown(tree, name), {"snapshot", full(tree) + '@' + name.text()}});
        if (!done && done.error().kind == ErrorKind::exists)
            return fail(ErrorKind::exists, "snapshot " + shown(tree, name) + " exists already");
        return plain(done);
    }

    Result<> rename_snapshot(TreeName const& tree, SnapshotName const& from, SnapshotName const& to) override {
        TRY(require(tree));
        TRY(check_name(to));
        auto const done = zfs_.run({"rename snapshot " + shown(tree, from),
                                    {"rename", full(tree) + '@' + from.text(), full(tree) + '@' + to.text()}});
        if (!done && done.error().kind == ErrorKind::not_found) return no_such_snapshot(tree, from);
        if (!done && done.error().kind == ErrorKind::exists)
            return fail(ErrorKind::exists, "snapshot " + shown(tree, to) + " exists already");
        return plain(done);
    }

    Result<> delete_snapshot(TreeName const& tree, SnapshotName const& name) override {
        TRY(require(tree));
        if (!check_name(name)) return no_such_snapshot(tree, name);
        std::string const snapshot = full(tree) + '@' + name.text();
        auto const done = zfs_.run({"delete snapshot " + shown(tree, name), {"destroy", snapshot}, -1, -1, Pace::slow});
        if (!done && done.error().kind == ErrorKind::not_found) return no_such_snapshot(tree, name);
        if (!done && done.error().kind == ErrorKind::busy)
            TRY(check_clones("delete snapshot " + shown(tree, name), snapshot, snapshot));
        return plain(done);
    }

    Result<> check_unused(TreeName const& tree, std::vector<SnapshotName> const& snapshots) override {
        TRY(require(tree));
        std::string const what = "delete snapshots of tree " + tree.text();
        std::vector<std::string> names;
        for (SnapshotName const& snapshot : snapshots)
            names.push_back(full(tree) + '@' + snapshot.text());
        for (auto const& [clone, origin] : TRY(origins(what)))
            if (std::ranges::find(names, origin) != names.end())
                return fail(ErrorKind::busy, what, last_of(origin) + " was cloned to " + clone);
        for (std::size_t first = 0; first < names.size(); first += most_asked) {
            auto const some = std::span(names).subspan(first, std::min(most_asked, names.size() - first));
            TRY(check_held(what, some));
        }
        return {};
    }

    Result<> rollback(TreeName const& tree, SnapshotName const& name) override {
        TRY(require(tree));
        auto const done = zfs_.run({"roll " + tree.text() + " back to snapshot " + name.text(),
                                    {"rollback", full(tree) + '@' + name.text()},
                                    -1,
                                    -1,
                                    Pace::slow});
        if (!done && done.error().kind == ErrorKind::not_found) return no_such_snapshot(tree, name);
        return plain(done);
    }

    Result<> rename(TreeName const& from, TreeName const& to) override {
        TRY(require(from));
        TRY(prepare_group(to));
        std::string const old_path = path(from);
        TRY(name_failure(move("rename " + from.text() + " to " + to.text(), full(from), full(to)), to));
        ::rmdir(old_path.c_str());  // where the tree was mounted
        return require(to);
    }

    Result<> destroy(TreeName const& tree) override {
        std::string const what = "destroy tree " + tree.text();
        TRY(require(tree));
        // Without snapshots, as most trees are, it is gone in one step. Else only its name is gone in one.
        auto const at_once = zfs_.run({what, {"destroy", full(tree)}, -1, -1, Pace::slow});
        if (at_once) {
            ::rmdir(path(tree).c_str());  // where the tree was mounted
            return {};
        }
        if (at_once.error().reason.find("has children") == std::string::npos) {
            (void)require(tree);
            return plain(at_once);
        }
        TRY(check_clones(what, full(tree) + '@', full(tree) + '/'));
        std::string const name = last_of(tree.text()) + '-' + random_name();
        auto const claim = TRY(Claim::try_make(locks(), name));
        if (!claim) return fail(ErrorKind::busy, what, "somebody has taken its name in the trash");
        std::string const trash = own(".trash/" + name);
        auto const moved = move(what, full(tree), trash);
        if (moved) ::rmdir(path(tree).c_str());  // where the tree was mounted
        // A full pool does not accept a new name, although destroying would make room: then destroy directly.
        if (!moved && moved.error().kind == ErrorKind::exhausted)
            return plain(zfs_.run({what, {"destroy", "-r", full(tree)}, -1, -1, Pace::slow}));
        if (!moved) return plain(moved);
        auto const destroyed = zfs_.run({what, {"destroy", "-r", trash}, -1, -1, Pace::slow});
        if (destroyed) return {};
        // It is in use in another mount namespace, or just being cloned: put it back.
        (void)move(what, trash, full(tree));
        (void)require(tree);
        return std::unexpected(destroyed.error());
    }

    Result<> set_quota(TreeName const& tree, std::optional<std::uint64_t> bytes) override {
        TRY(require(tree));
        std::string const value = bytes ? std::to_string(*bytes) : "none";
        std::string const what = "limit tree " + tree.text();
        TRY(zfs_.run({what, {"set", "refquota=" + value, full(tree)}}));
        // The other limit of ZFS counts snapshots, too. One that is narrower would be in force instead.
        std::uint64_t const other = TRY(numbers(what, "quota", full(tree), 1)).front();
        if (other == 0 || (bytes && other >= *bytes)) return {};
        return plain(zfs_.run({what, {"set", "quota=none", full(tree)}}));
    }

    Result<std::optional<std::uint64_t>> quota(TreeName const& tree) override { return TRY(usage(tree)).quota; }

    Result<std::map<TreeName, std::uint64_t>> quotas(std::vector<TreeName> const& trees) override {
        std::map<TreeName, std::uint64_t> all;
        for (std::size_t first = 0; first < trees.size(); first += most_asked)
            TRY(add_quotas(std::span(trees).subspan(first, std::min(most_asked, trees.size() - first)), all));
        return all;
    }

    Result<> tune(TreeName const& tree, Tuning const& tuning) override {
        TRY(require(tree));
        auto const text = [](std::optional<std::uint64_t> const& number) {
            return number ? std::optional(std::to_string(*number)) : std::nullopt;
        };
        struct Wanted {
            std::string name;
            std::optional<std::string> value;
            bool is_inherited = true;
        };
        std::array<Wanted, 4> const all{{{"compression", tuning.compression},
                                         {"recordsize", text(tuning.record_size)},
                                         {"filesystem_limit", text(tuning.most_filesystems), false},
                                         {"snapshot_limit", text(tuning.most_snapshots), false}}};
        auto const now = TRY(local_properties(tree));
        for (Wanted const& wanted : all) {
            std::string const what = "set " + wanted.name + " of tree " + tree.text();
            auto const found = now.find(wanted.name);
            bool const is_set = found != now.end() && found->second != "none";
            if (wanted.value && (!is_set || found->second != *wanted.value))
                TRY(zfs_.run({what, {"set", wanted.name + '=' + *wanted.value, full(tree)}}));
            if (!wanted.value && is_set && wanted.is_inherited)
                TRY(zfs_.run({what, {"inherit", wanted.name, full(tree)}}));
            if (!wanted.value && is_set && !wanted.is_inherited)
                TRY(zfs_.run({what, {"set", wanted.name + "=none", full(tree)}}));
        }
        return {};
    }

    Result<> set_property(TreeName const& tree, std::string_view key, std::string_view value) override {
        TRY(check_property(key, value));
        TRY(require(tree));
        std::string const what = "set " + std::string(key) + " of tree " + tree.text();
        if (value.empty()) return plain(zfs_.run({what, {"inherit", std::string(key), full(tree)}}));
        return plain(zfs_.run({what, {"set", std::string(key) + '=' + std::string(value), full(tree)}}));
    }

    Result<Properties> properties(TreeName const& tree) override {
        TRY(expect(tree));
        Properties properties = TRY(local_properties(tree));
        std::erase_if(properties,
                      [](auto const& property) { return !check_property(property.first, property.second); });
        return properties;
    }

    Result<> send(TreeName const& tree, SnapshotName const& snapshot, std::optional<SnapshotName> const& from,
                  int fd) override {
        TRY(require(tree));
        ZfsCommand::Call call{"send " + shown(tree, snapshot), {"send"}, -1, fd, Pace::unlimited};
        if (from) call.arguments.insert(call.arguments.end(), {"-i", '@' + from->text()});
        call.arguments.push_back(full(tree) + '@' + snapshot.text());
        auto const done = zfs_.run(call);
        if (!done && done.error().kind == ErrorKind::not_found) return no_such_snapshot(tree, snapshot);
        return plain(done);
    }

    Result<std::optional<TreeName>> origin(TreeName const& tree) override {
        TRY(expect(tree));
        std::string const snapshot = TRY(origin_snapshot(tree));
        if (!snapshot.starts_with(dataset_ + '/')) return std::optional<TreeName>();
        std::size_t const start = dataset_.size() + 1;
        return std::optional(TRY(TreeName::parse(snapshot.substr(start, snapshot.rfind('@') - start))));
    }

    Result<> send_since_origin(TreeName const& tree, SnapshotName const& snapshot, int fd) override {
        TRY(require(tree));
        std::string const what = "send the changes of " + shown(tree, snapshot);
        std::string const origin = TRY(origin_snapshot(tree));
        if (origin.find('@') == origin.npos) return fail(ErrorKind::refused, what, "it is not a clone");
        auto const done =
            zfs_.run({what, {"send", "-i", origin, full(tree) + '@' + snapshot.text()}, -1, fd, Pace::unlimited});
        if (!done && done.error().kind == ErrorKind::not_found) return no_such_snapshot(tree, snapshot);
        return plain(done);
    }

    Result<> receive(TreeName const& tree, int fd) override {
        if (TRY(exists(tree))) return receive_change(tree, fd);
        TRY(prepare_group(tree));
        std::string const name = last_of(tree.text()) + '-' + random_name();
        auto const claim = TRY(Claim::try_make(locks(), name));
        if (!claim)
            return fail(ErrorKind::busy, "receive tree " + tree.text(), "somebody has taken its name meanwhile");
        std::string const building = own(".building/" + name);
        auto received = receive_as(building, tree, fd);
        if (!received) (void)zfs_.run({"clear up", {"destroy", "-r", building}, -1, -1, Pace::slow});
        return received;
    }

    Result<Usage> usage(TreeName const& tree) override {
        TRY(expect(tree));
        std::string const what = "look at tree " + tree.text();
        auto const values = TRY(numbers(what, "used,referenced,refquota,quota", full(tree), 4));
        std::uint64_t const limit = narrower(values[2], values[3]);
        return Usage{values[0], values[1], limit == 0 ? std::nullopt : std::optional(limit)};
    }

    Result<Space> space() override {
        auto const values = TRY(numbers("look at the space of " + dataset_, "used,available", dataset_, 2));
        return Space{values[0] + values[1], values[1], {}};
    }

    Result<bool> exists(TreeName const& tree) override {
        auto const found = expect(tree);
        if (!found && found.error().kind != ErrorKind::not_found) return std::unexpected(found.error());
        return found.has_value();
    }

    Result<std::vector<TreeName>> list(std::string_view group) override {
        std::string start = dataset_;
        if (!group.empty()) start += '/' + TRY(TreeName::parse(group)).text();
        auto const output = zfs_.run({"list the trees of " + start,
                                      {"list", "-H", "-o", "name,canmount", "-t", "filesystem", "-r", start},
                                      -1,
                                      -1,
                                      Pace::slow});
        std::vector<TreeName> trees;
        if (!output && output.error().kind == ErrorKind::not_found) return trees;
        if (!output) return std::unexpected(output.error());
        for (auto const& fields : zfs_fields(*output)) {
            if (fields.size() != 2 || fields[1] == of_groups || fields[0].size() <= start.size()) continue;
            if (auto const tree = TreeName::parse(fields[0].substr(dataset_.size() + 1))) trees.push_back(*tree);
        }
        std::ranges::sort(trees);
        return trees;
    }

    Result<std::vector<SnapshotName>> snapshots(TreeName const& tree) override {
        TRY(expect(tree));
        std::vector<SnapshotName> names;
        for (std::string const& snapshot : TRY(snapshots_of(full(tree))))
            names.push_back(TRY(SnapshotName::parse(snapshot.substr(snapshot.find('@') + 1))));
        return names;
    }

    Result<std::vector<SnapshotFacts>> snapshot_facts(TreeName const& tree) override {
        TRY(expect(tree));
        std::vector<SnapshotFacts> all;
        std::vector<std::string> const names = TRY(snapshots_of(full(tree)));
        for (std::size_t first = 0; first < names.size(); first += most_asked) {
            auto const some = std::span(names).subspan(first, std::min(most_asked, names.size() - first));
            for (SnapshotFacts& facts : TRY(facts_of(tree, some)))
                all.push_back(std::move(facts));
        }
        return all;
    }

    Result<UniqueFd> open(TreeName const& tree) override {
        TRY(require(tree));
        UniqueFd directory{::open(path(tree).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
        if (!directory) return fail(errno, "open tree " + tree.text());
        return directory;
    }

    [[nodiscard]] std::string path(TreeName const& tree) const override { return path_ + '/' + tree.text(); }

    [[nodiscard]] std::string dataset(TreeName const& tree) const override { return full(tree); }

    Result<std::vector<std::string>> recover() override {
        std::vector<std::string> removed;
        auto const built = recover_below(".building", "building", removed);
        auto const destroyed = recover_below(".trash", "destroying", removed);
        TRY(built);
        TRY(destroyed);
        return removed;
    }

    /// Makes what a new pool needs, unless that exists.
    Result<> prepare() {
        if (is_ready()) return {};
        {
            // Of several processes that make one pool, only one does this. Later the path leads to what is mounted
            // there.
            UniqueFd const place = TRY(files::make_directories(path_));
            UniqueFd const locked{::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
            if (!locked) return fail(errno, "open " + path_);
            TRY(lock(locked.get(), Sharing::alone, "pool " + path_, patience_));
            TRY(mount_base());
        }
        if (::chmod(path_.c_str(), 0700) != 0) return fail(errno, "close pool " + path_ + " to others");
        UniqueFd const pool = TRY(files::make_directories(path_ + "/@pool"));
        UniqueFd const made{::open(locks().c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
        if (!made) return fail(errno, "make " + locks());
        for (char const* name : {".building", ".trash"})
            TRY(make_group(own(name)));
        files::Target const target{pool.get(), "format", path_ + "/@pool/format"};
        auto prepared = TRY(files::prepare_file(format, 0600, target, {}));
        TRY(files::publish(std::move(prepared)));
        return {};
    }

private:
    /// Whether the dataset is mounted at the path, and has become a pool: most processes find it so.
    [[nodiscard]] bool is_ready() const {
        auto const mounts = read_file("/proc/self/mountinfo", longest_mounts);
        if (!mounts || ::access((path_ + "/@pool/format").c_str(), F_OK) != 0) return false;
        auto const mount = mount_above(*mounts, path_);
        return mount && unescape_mount_path(mount->point) == path_ && unescape_mount_path(mount->source) == dataset_;
    }

    // --- Names

    [[nodiscard]] std::string full(TreeName const& tree) const { return dataset_ + '/' + tree.text(); }
    [[nodiscard]] std::string own(std::string const& name) const { return dataset_ + '/' + name; }
    [[nodiscard]] std::string locks() const { return path_ + "/@pool/locks"; }
    /// zfs(8) has no such snapshots, and takes "a%b" as all from a to b.
    static Result<> check_name(SnapshotName const& name) {
        if (!name.text().contains('%')) return {};
        return fail(ErrorKind::invalid, "snapshot name " + json::quoted(name.text()) + ": ZFS allows no % in it");
    }
    static std::string shown(TreeName const& tree, SnapshotName const& snapshot) {
        return tree.text() + '@' + snapshot.text();
    }

    static Result<> plain(Result<std::string> const& done) {
        if (!done) return std::unexpected(done.error());
        return {};
    }
    static std::unexpected<Error> no_such_snapshot(TreeName const& tree, SnapshotName const& snapshot) {
        return fail(ErrorKind::not_found, "there is no snapshot " + shown(tree, snapshot));
    }
    static Result<> name_failure(Result<std::string> done, TreeName const& tree) {
        if (!done && done.error().kind == ErrorKind::exists)
            return fail(ErrorKind::exists, "tree " + tree.text() + " exists already");
        return plain(done);
    }

    /// The result of zfs(8) for a new tree. It may have made the dataset and failed to mount it, because somebody was
    /// in the directory just then: then only that is done again.
    Result<> made(Result<std::string> done, TreeName const& tree) const {
        if (!done && done.error().reason.find(made_without_mount) != std::string::npos) return require(tree);
        return name_failure(std::move(done), tree);
    }

    enum class Found : std::uint8_t { nothing, group, tree };

    Result<Found> look_at(std::string const& dataset) const {
        auto const output = zfs_.run({"look at " + dataset, {"list", "-H", "-o", "canmount", dataset}});
        if (!output && output.error().kind == ErrorKind::not_found) return Found::nothing;
        if (!output) return std::unexpected(output.error());
        return output->substr(0, output->find('\n')) == of_groups ? Found::group : Found::tree;
    }

    /// Checks that a tree exists, for those who only look: one that is just being made is not mounted by them, under
    /// the command that makes it.
    Result<> expect(TreeName const& tree) const {
        if (is_mount_point(path(tree)) || TRY(look_at(full(tree))) == Found::tree) return {};
        return fail(ErrorKind::not_found, "there is no tree " + tree.text());
    }

    /// Checks that a tree exists and is mounted. Whatever is mounted at its place is the tree, which takes no child
    /// process to find out.
    Result<> require(TreeName const& tree) const {
        if (is_mount_point(path(tree))) return {};
        if (TRY(look_at(full(tree))) != Found::tree) return fail(ErrorKind::not_found, "there is no tree " + tree.text());
        if (is_mount_point(path(tree))) return {};
        auto const mounted = zfs_.run({"mount tree " + tree.text(), {"mount", full(tree)}});
        // zfs-fuse itself mounts what it has received, sometimes just after we have looked.
        return mounted || is_mount_point(path(tree)) ? Result<>{} : plain(mounted);
    }

    Result<> make_group(std::string const& dataset) const {
        auto const made =
            zfs_.run({"make " + dataset, {"create", "-o", "canmount=" + std::string(of_groups), dataset}});
        if (!made && made.error().kind != ErrorKind::exists) return plain(made);
        return {};
    }

    /// Makes the groups of a tree. Errors: `refused` when one of them is a tree; `exists` and `refused` for its own
    /// name. A known group has a file that says so, which saves a child process: most clones are made in the same
    /// group.
    Result<> prepare_group(TreeName const& tree) {
        if (is_mount_point(path(tree))) return fail(ErrorKind::exists, "tree " + tree.text() + " exists already");
        std::string const group = parent_of(tree.text());
        for (std::size_t end = 0; !group.empty() && end != group.npos;) {
            end = group.find('/', end + 1);
            TRY(prepare_one(tree, group.substr(0, end)));
        }
        return check_own_name(tree);
    }

    Result<> prepare_one(TreeName const& tree, std::string const& group) {
        std::string const known = path_ + '/' + group + "/@group";
        if (::access(known.c_str(), F_OK) == 0) return {};
        // zfs(8) makes a dataset first and sets its properties then: meanwhile a group looks like a tree.
        UniqueFd const locked{::open((path_ + "/@pool").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        if (!locked) return fail(errno, "open " + path_ + "/@pool");
        TRY(lock(locked.get(), Sharing::alone, "the groups of pool " + path_, patience_));
        Found const found = TRY(look_at(own(group)));
        if (found == Found::tree)
            return fail(ErrorKind::refused, "make tree " + tree.text(), "it would be inside of tree " + group);
        if (found == Found::nothing) TRY(make_group(own(group)));
        (void)TRY(files::make_directories(path_ + '/' + group));
        UniqueFd const file{::open(known.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
        return {};  // a full pool has no room for the file, and does without it
    }

    /// Checks the tree's own name, which may be a group. Asking takes a child process, which is saved when there is no
    /// such directory.
    Result<> check_own_name(TreeName const& tree) const {
        if (::access(path(tree).c_str(), F_OK) != 0) return {};
        Found const found = TRY(look_at(full(tree)));
        if (found == Found::tree) return fail(ErrorKind::exists, "tree " + tree.text() + " exists already");
        if (found == Found::group) return there_are_trees_below(tree);
        return {};
    }

    static std::unexpected<Error> there_are_trees_below(TreeName const& tree) {
        return fail(ErrorKind::refused, "make tree " + tree.text(), "there are trees below that name");
    }

    /// Renames a dataset. It is unmounted first. Renaming would do that, too, but with zfs-fuse that fails now and
    /// then, however often one tries. A dataset in use stays mounted and keeps its name.
    [[nodiscard]] Result<std::string> move(std::string const& what, std::string const& from,
                                           std::string const& to) const {
        auto const unmounted = zfs_.run({what, {"unmount", from}});
        if (!unmounted && unmounted.error().kind == ErrorKind::busy) return unmounted;
        auto moved = zfs_.run({what, {"rename", from, to}});
        if (!moved && unmounted) (void)zfs_.run({what, {"mount", from}});
        return moved;
    }

    // --- Values

    [[nodiscard]] Result<std::vector<std::uint64_t>> numbers(std::string const& what, std::string const& names,
                                                             std::string const& dataset, std::size_t count) const {
        auto const output = TRY(zfs_.run({what, {"get", "-Hp", "-o", "value", names, dataset}}));
        std::vector<std::uint64_t> values;
        for (auto const& fields : zfs_fields(output))
            values.push_back(fields[0] == "none" ? 0 : TRY(parse_number(fields[0], what)));
        if (values.size() != count) return fail(ErrorKind::internal, what, "zfs printed something else");
        return values;
    }

    /// Of two limits, of which 0 is none.
    static std::uint64_t narrower(std::uint64_t one, std::uint64_t other) {
        return one == 0 || other == 0 ? std::max(one, other) : std::min(one, other);
    }

    Result<> add_quotas(std::span<TreeName const> trees, std::map<TreeName, std::uint64_t>& all) const {
        ZfsCommand::Call call{"read the quotas of trees", {"get", "-Hp", "-o", "name,value", "refquota,quota"}};
        for (TreeName const& tree : trees)
            call.arguments.push_back(full(tree));
        auto const output = zfs_.run(call);
        if (!output && output.error().kind == ErrorKind::not_found) {
            // zfs(8) fails when one of them does not exist: it is looked for by halves.
            if (trees.size() == 1) return {};
            std::size_t const half = trees.size() / 2;
            TRY(add_quotas(trees.first(half), all));
            return add_quotas(trees.subspan(half), all);
        }
        if (!output) return std::unexpected(output.error());
        for (auto const& fields : zfs_fields(*output)) {
            if (fields.size() != 2 || fields[0].size() <= dataset_.size()) continue;
            TreeName const tree = TRY(TreeName::parse(fields[0].substr(dataset_.size() + 1)));
            std::uint64_t const limit = fields[1] == "none" ? 0 : TRY(parse_number(fields[1], call.attempted));
            all[tree] = narrower(all[tree], limit);
        }
        return {};
    }

    /// The properties that are set on the dataset itself: ZFS's own, and those of users.
    [[nodiscard]] Result<Properties> local_properties(TreeName const& tree) const {
        auto const output = TRY(zfs_.run({"read the properties of tree " + tree.text(),
                                          {"get", "-Hp", "-s", "local", "-o", "property,value", "all", full(tree)}}));
        Properties properties;
        for (auto const& fields : zfs_fields(output))
            if (fields.size() == 2) properties.emplace(fields[0], fields[1]);
        return properties;
    }

    /// Full names, oldest first: zfs(8) sorts the snapshots of one dataset by their creation.
    [[nodiscard]] Result<std::vector<std::string>> snapshots_of(std::string const& dataset) const {
        auto const output = TRY(zfs_.run(
            {"list the snapshots of " + dataset, {"list", "-H", "-o", "name", "-t", "snapshot", "-r", dataset}}));
        std::vector<std::string> names;
        for (auto const& fields : zfs_fields(output))
            names.push_back(fields[0]);
        return names;
    }

    /// A snapshot that has been deleted meanwhile causes an error of zfs(8), which names it.
    [[nodiscard]] Result<std::vector<SnapshotFacts>> facts_of(TreeName const& tree,
                                                              std::span<std::string const> snapshots) const {
        ZfsCommand::Call call{"look at the snapshots of tree " + tree.text(),
                              {"get", "-Hp", "-o", "name,property,value", "creation,used"}};
        call.arguments.insert(call.arguments.end(), snapshots.begin(), snapshots.end());
        std::vector<SnapshotFacts> all;
        for (std::string const& snapshot : snapshots) {
            SnapshotName const name = TRY(SnapshotName::parse(snapshot.substr(snapshot.find('@') + 1)));
            all.push_back({.name = name});
        }
        for (auto const& fields : zfs_fields(TRY(zfs_.run(call)))) {
            auto const found = std::ranges::find(snapshots, fields.front());
            if (fields.size() != 3 || found == snapshots.end()) continue;
            SnapshotFacts& facts = all[static_cast<std::size_t>(found - snapshots.begin())];
            std::uint64_t const value = TRY(parse_number(fields[2], call.attempted));
            if (fields[1] == "creation") facts.created_at = static_cast<std::int64_t>(value) * 1'000'000;
            if (fields[1] == "used") facts.used = value;
        }
        return all;
    }

    /// The name of each tree, without the pool's, and the full one of the snapshot that it was cloned from, or "-".
    [[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> origins(std::string const& what) const {
        auto const output = TRY(zfs_.run(
            {what, {"list", "-H", "-o", "name,origin", "-t", "filesystem", "-r", dataset_}, -1, -1, Pace::slow}));
        std::vector<std::pair<std::string, std::string>> all;
        for (auto const& fields : zfs_fields(output))
            if (fields.size() == 2)
                all.emplace_back(fields[0].substr(std::min(fields[0].size(), dataset_.size() + 1)), fields[1]);
        return all;
    }

    /// Fails when somebody holds one of these snapshots: zfs-hold(8).
    [[nodiscard]] Result<> check_held(std::string const& what, std::span<std::string const> snapshots) const {
        ZfsCommand::Call call{what, {"get", "-H", "-o", "name,value", "userrefs"}};
        call.arguments.insert(call.arguments.end(), snapshots.begin(), snapshots.end());
        auto const counts = zfs_.run(call);
        if (!counts && counts.error().kind == ErrorKind::unsupported) return {};  // an old one knows no holds
        for (auto const& fields : zfs_fields(TRY(counts)))
            if (fields.size() == 2 && fields[1] != "0" && fields[1] != "-")
                return fail(ErrorKind::busy, what, last_of(fields[0]) + " is held: zfs holds " + fields[0]);
        return {};
    }

    /// Fails with the names of the trees that were cloned from a snapshot whose name begins with this; `itself` does
    /// not count.
    [[nodiscard]] Result<> check_clones(std::string const& what, std::string const& prefix,
                                        std::string const& itself) const {
        std::string clones;
        for (auto const& [name, origin] : TRY(origins(what)))
            if (origin.starts_with(prefix) && !(dataset_ + '/' + name).starts_with(itself))
                clones += (clones.empty() ? "" : ", ") + name;
        if (!clones.empty()) return fail(ErrorKind::busy, what, "it was cloned to " + clones);
        return {};
    }

    /// Returns "tank/triton/layers/a@final", or "-" when there is none.
    [[nodiscard]] Result<std::string> origin_snapshot(TreeName const& tree) const {
        auto const output = TRY(zfs_.run(
            {"look where tree " + tree.text() + " comes from", {"get", "-H", "-o", "value", "origin", full(tree)}}));
        return output.substr(0, output.find('\n'));
    }

    // --- Streams

    /// The properties that were set on a dataset itself, by us or by a stream.
    [[nodiscard]] Result<std::string> own_properties(std::string const& what, std::string const& dataset) const {
        return zfs_.run({what, {"get", "-H", "-s", "local,received", "-o", "property,value", "all", dataset}});
    }

    /// Checks a stream before anything is mounted: it may bring properties, and a mount point could be a directory of
    /// the host.
    [[nodiscard]] Result<> check_properties(std::string const& what, std::string const& dataset,
                                            std::string const& before) const {
        if (TRY(own_properties(what, dataset)) == before) return {};
        return fail(ErrorKind::corrupt, what, "the stream brings properties, which only its receiver may set");
    }

    Result<> receive_as(std::string const& building, TreeName const& tree, int fd) {
        std::string const what = "receive tree " + tree.text();
        TRY(zfs_.run({what, {"receive", "-u", building}, fd, -1, Pace::unlimited}));
        TRY(check_properties(what, building, ""));
        auto const snapshots = TRY(snapshots_of(building));
        std::string const expected = building + '@';
        if (snapshots.size() != 1 || !snapshots[0].starts_with(expected) ||
            !SnapshotName::parse(snapshots[0].substr(expected.size())))
            return fail(ErrorKind::corrupt, what,
                        "the stream is not of one tree with one snapshot that has a name of ours");
        TRY(name_failure(zfs_.run({what, {"rename", building, full(tree)}}), tree));
        return require(tree);
    }

    /// The tree is unmounted meanwhile: FUSE would go on showing what it has cached.
    Result<> receive_change(TreeName const& tree, int fd) {
        std::string const what = "receive into tree " + tree.text();
        std::string const before = TRY(own_properties(what, full(tree)));
        TRY(zfs_.run({what, {"unmount", full(tree)}}));
        auto const received = zfs_.run({what, {"receive", "-u", full(tree)}, fd, -1, Pace::unlimited});
        TRY(check_properties(what, full(tree), before));
        TRY(require(tree));
        return plain(received);
    }

    // --- The pool

    /// Makes the dataset, with the ACLs that images have and OpenZFS refuses by default. zfs-fuse does not know these
    /// properties.
    [[nodiscard]] Result<std::string> make_base() const {
        std::string const what = "make pool " + dataset_;
        std::vector<std::string> const words{"create", "-p", "-o", "mountpoint=" + path_, "-o", "atime=off"};
        auto with_acls = words;
        with_acls.insert(with_acls.end(), {"-o", "acltype=posixacl", "-o", "xattr=sa", dataset_});
        auto made = zfs_.run({what, with_acls});
        if (made || made.error().reason.find("invalid property") == std::string::npos) return made;
        auto without = words;
        without.push_back(dataset_);
        return zfs_.run({what, without});
    }

    Result<> mount_base() {
        std::string const what = "open pool " + dataset_;
        ZfsCommand::Call const look{what, {"list", "-H", "-o", "mountpoint,mounted", dataset_}};
        auto found = zfs_.run(look);
        if (!found && found.error().kind == ErrorKind::not_found) {
            auto const made = make_base();
            if (made || made.error().kind != ErrorKind::exists) return plain(made);
            found = zfs_.run(look);  // another process has made it first
        }
        if (!found) return plain(found);
        auto const fields = zfs_fields(*found);
        if (fields.size() != 1 || fields[0].size() != 2)
            return fail(ErrorKind::internal, what, "zfs printed something else");
        if (fields[0][0] != path_)
            return fail(ErrorKind::refused, what, "its mount point is " + fields[0][0] + ", not " + path_);
        if (fields[0][1] == "yes") return {};
        auto const mounted = zfs_.run({what, {"mount", dataset_}});
        return mounted || is_mount_point(path_) ? Result<>{} : plain(mounted);
    }

    Result<> recover_below(std::string const& workshop, std::string const& doing, std::vector<std::string>& removed) {
        auto const output = TRY(zfs_.run(
            {"look for what was left", {"list", "-H", "-o", "name", "-t", "filesystem", "-r", own(workshop)}}));
        std::string const prefix = own(workshop) + '/';
        Result<> result;
        for (auto const& fields : zfs_fields(output)) {
            std::string const name = fields[0].substr(std::min(prefix.size(), fields[0].size()));
            if (!fields[0].starts_with(prefix) || name.find('/') != name.npos) continue;
            auto const claim = TRY(Claim::try_make(locks(), name));
            if (!claim) continue;
            auto const gone = zfs_.run(
                {"remove what was left of " + doing + ' ' + name, {"destroy", "-r", fields[0]}, -1, -1, Pace::slow});
            // Whoever had it locked has completed or removed it since it was listed.
            if (!gone && gone.error().kind == ErrorKind::not_found) continue;
            if (gone)
                removed.push_back("removed what was left of " + doing + ' ' + name);
            else if (result)
                result = plain(gone);
        }
        return result;
    }

    ZfsCommand zfs_;
    std::string dataset_;
    std::string path_;
    std::chrono::milliseconds patience_;
};

}  // namespace

Result<std::unique_ptr<Pool>> open_zfs_pool(Settings const& settings) {
    if (settings.dataset.empty()) return fail("a ZFS pool needs the name of a dataset");
    if (!TreeName::parse(settings.dataset)) return fail("\"" + settings.dataset + "\" is not a name of a dataset");
    auto zfs = TRY(ZfsCommand::find(settings.patience));
    auto pool = std::make_unique<ZfsPool>(std::move(zfs), settings);
    TRY(pool->prepare());
    return pool;
}

Result<> probe_zfs(std::string const& dataset) {
    auto const zfs = TRY(ZfsCommand::find(std::chrono::seconds(10)));
    std::string const zpool = dataset.substr(0, dataset.find('/'));
    auto const found = zfs.run({"look at zpool " + zpool, {"list", "-H", "-o", "name", zpool}});
    if (found) return {};
    Error error = found.error();
    error.kind = ErrorKind::unavailable;
    return std::unexpected(std::move(error));
}

}  // namespace triton::storage
