#include "programs/triton-machine-volumes/attach.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/volume_uses.h"
#include "host/parts/held_volumes.h"
#include "host/storage/own_ids.h"
#include "host/systemd/daemon.h"
#include "host/volume/work/workbench.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"
#include "lib/json/lookup.h"
#include "lib/json/writer.h"
#include "lib/varlink/connection.h"

namespace triton::program {

namespace {

using machine::VolumeUse;

/// Between two looks when volumemgr has nothing to say: a disk that is mounted late causes no event that all
/// file systems have.
constexpr std::chrono::seconds look_interval{1};
constexpr std::chrono::seconds connect_limit{5};

/// Why a volume cannot be used yet.
struct NotReady {
    std::string reason;
};

/// Where the files of a volume are: the directory or the file that the machine sees.
using Found = std::expected<std::string, NotReady>;

class Attachment {
public:
    Attachment(machine::Layout layout, Uuid uuid)
        : layout_(std::move(layout)), uuid_(std::move(uuid)), volumes_(layout_), store_(layout_) {}

    Result<> run() {
        auto const machine = store_.load(uuid_);
        if (!machine && machine.error().kind == ErrorKind::not_found) return {};  // not one of vmadm's
        if (!machine) return std::unexpected(machine.error());
        TRY(machine::remove_volume_links(layout_, uuid_));                             // of a run whose end nobody noticed
        std::vector<VolumeUse> const uses = machine::volume_uses(*machine);
        if (uses.empty()) return {};
        // In advance: an update from now on keeps these for the run that begins.
        TRY(machine::save_attached_volumes(layout_, uuid_, uses));
        TRY(hold(uses));
        first_uid_ = machine->first_uid;
        for (VolumeUse const& use : uses)
            TRY(attach(use));
        return tell("");
    }

private:
    /// Whether systemd-nspawn will map the owners of a volume. What its configuration says counts; only without one the
    /// file system is tried, which takes a process.
    Result<bool> bind_maps_owners(std::string const& key) {
        constexpr std::size_t most_settings = 16 << 20;
        auto const settings = read_file(layout_.nspawn() + "/" + uuid_.text() + ".nspawn", most_settings);
        if (!settings) return volumes_.maps_owners(key);
        std::size_t const bind = settings->find(machine::volume_links(layout_, uuid_) + "/" + key + ":");
        if (bind == std::string::npos) return volumes_.maps_owners(key);
        return settings->substr(bind, settings->find('\n', bind) - bind).ends_with(":idmap");
    }

    /// They are held already, unless the rows were lost.
    Result<> hold(std::vector<VolumeUse> const& uses) {
        for (;;) {
            auto const held = volumes_.hold(uuid_, [&uses] { return Result<std::vector<VolumeUse>>(uses); }, true);
            if (held || held.error().kind == ErrorKind::refused || held.error().kind == ErrorKind::corrupt) return held;
            TRY(tell(held.error().text()));
            std::this_thread::sleep_for(look_interval);
        }
    }

    Result<> attach(VolumeUse const& use) {
        for (;;) {
            auto const found = look_at(use.volume);
            if (found) return link(use.volume, *found);
            TRY(tell("volume " + name_ + ": " + found.error().reason));
            wait_for_change(use.volume);
        }
    }

    /// Looks at the rows and at the pool itself: neither alone says that the bytes are there.
    Found look_at(std::string const& key) {
        name_ = key;
        auto const known = volumes_.look_at(key);
        if (!known) return std::unexpected(NotReady{known.error().text()});
        if (!known->name.empty()) name_ = known->name + " (" + key + ")";
        if (!known->row) return std::unexpected(NotReady{told_state(key, "it is not made yet")});
        switch (known->row->stage) {
            case volume::VolumeRow::Stage::intent:
                return std::unexpected(NotReady{told_state(key, "it is being made")});
            case volume::VolumeRow::Stage::deleting: return std::unexpected(NotReady{"it is being deleted"});
            case volume::VolumeRow::Stage::made: break;
        }
        auto const path = look_at_pool(*known->row);
        if (!path) return std::unexpected(NotReady{path.error().text()});
        return *path;
    }

    Result<std::string> look_at_pool(volume::VolumeRow const& row) {
        if (!pool_) {
            volume::Place const place = TRY(volume::read_place(layout_.root));
            // It is made by others: a pool that is made here would be on the disk below the one that is missing.
            if (::access(place.site.storage.path.c_str(), F_OK) != 0)
                return fail(errno, "open the pool " + place.site.storage.path);
            pool_ = TRY(storage::open_pool(place.site.storage));
        }
        storage::TreeName const tree = TRY(volume::tree_of(row.key, row.is_in_vault));
        std::unique_ptr<storage::Pool> vault;
        if (row.is_in_vault) vault = TRY(volume::open_vault(TRY(volume::read_place(layout_.root)).site));
        storage::Pool& pool = vault ? *vault : *pool_;
        UniqueFd const directory = TRY(pool.open(tree));  // which mounts it, on ZFS
        bool const is_directory = volume::layout_of(row.format) == volume::Layout::directory;
        std::string const entry = is_directory ? "root" : volume::file_name(row.key, row.format);
        struct stat status{};
        if (::fstatat(directory.get(), entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
            return fail(errno, "find " + entry + " in " + tree.text());
        if (is_directory ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode))
            return fail(ErrorKind::corrupt, "its " + entry + " is of another type");
        if (first_uid_ && !TRY(bind_maps_owners(row.key.text()))) TRY(give_to_machine(directory.get(), entry));
        return pool.path(tree) + "/" + entry;
    }

    /// Where mounts cannot map owners. Nobody else uses the volume then: its hold says so.
    Result<> give_to_machine(int directory, std::string const& entry) {
        UniqueFd file{::openat(directory, entry.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
        if (!file) return fail(errno, "open " + entry);
        return storage::give_ids(std::move(file), static_cast<uid_t>(*first_uid_));
    }

    Result<> link(std::string const& key, std::string const& target) {
        std::string const path = machine::volume_links(layout_, uuid_) + "/" + key;
        if (::symlink(target.c_str(), path.c_str()) != 0) return fail(errno, "make the link " + path);
        return {};
    }

    /// What volumemgr has said last of a volume, or our own words.
    [[nodiscard]] std::string told_state(std::string const& key, std::string otherwise) const {
        return told_key_ == key && !told_.empty() ? told_ : std::move(otherwise);
    }

    /// Waits until volumemgr reports a change of the volume, or for a moment.
    void wait_for_change(std::string const& key) {
        if (!manager_ || told_key_ != key) ask(key);
        if (!manager_) return std::this_thread::sleep_for(look_interval);
        auto const reply = manager_->reply(std::chrono::steady_clock::now() + look_interval);
        if (!reply && reply.error() == varlink::Connection::Silence::timed_out) return;
        if (!reply || !reply->error.empty()) return manager_.reset();
        json::Object const status = json::object_of(reply->parameters, "object");
        if (status.empty()) return;
        told_ = json::text_of(status, "State");
        std::string const problem = json::text_of(json::object_of(status, "Error"), "Text");
        if (!problem.empty()) told_ += ": " + problem;
    }

    /// Its socket starts volumemgr, which then makes what is missing.
    void ask(std::string const& key) {
        auto connection = varlink::Connection::connect(layout_.root + "/run/triton/volumemgr.socket", connect_limit);
        told_key_ = key;
        told_.clear();
        if (!connection) return manager_.reset();
        manager_.emplace(*std::move(connection));
        json::Writer out;
        out.open('{').member("kind", "VolumeStatus").member("key", key).member("follow", true).close('}');
        manager_->call("org.tritonlaunch.Volumes.Watch", std::move(out).text(), true);
    }

    /// Says what it waits for, or, with an empty text, that it does not wait any more.
    Result<> tell(std::string const& what) {
        if (what == awaited_) return {};
        TRY(machine::save_awaited_volume(layout_, uuid_, what));
        systemd::notify("STATUS=" + (what.empty() ? "all volumes are attached" : "waits for " + what));
        if (!what.empty()) (void)write_all(STDERR_FILENO, "waits for " + what + "\n");
        awaited_ = what;
        return {};
    }

    machine::Layout layout_;
    Uuid uuid_;
    parts::HeldVolumes volumes_;
    machine::Store store_;
    std::unique_ptr<storage::Pool> pool_;
    std::optional<varlink::Connection> manager_;
    std::string told_key_;  // what it was asked for
    std::string told_;
    std::string name_;  // of the volume that was looked at last
    std::string awaited_;
    std::optional<std::int64_t> first_uid_;  // of the machine
};

}  // namespace

Result<> attach_volumes(machine::Layout const& layout, Uuid const& uuid) { return Attachment(layout, uuid).run(); }

Result<> detach_volumes(machine::Layout const& layout, Uuid const& uuid) {
    auto const attached = machine::attached_volumes(layout, uuid);
    TRY(machine::remove_volume_links(layout, uuid));
    // A corrupt record counts as one: what the machine's file names is all that is kept.
    if (attached && attached->empty()) return {};
    machine::Store const store(layout);
    auto const wanted = [&store, &uuid]() -> Result<std::vector<VolumeUse>> {
        auto const machine = store.load(uuid);
        if (!machine && machine.error().kind == ErrorKind::not_found) return std::vector<VolumeUse>();
        if (!machine) return std::unexpected(machine.error());
        return machine::volume_uses(*machine);
    };
    parts::HeldVolumes volumes(layout);
    return volumes.hold(uuid, wanted, false);
}

}  // namespace triton::program
