#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/last_exit.h"
#include "host/machine/machine.h"
#include "host/machine/steps.h"
#include "host/network/documents.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::machine {

/// The paths on a host. `root` comes before all of them; empty: the real root.
struct Layout {
    std::string root = {};

    [[nodiscard]] std::string state() const { return root + "/var/triton/vmadm"; }
    [[nodiscard]] std::string machines() const { return state() + "/machines"; }
    [[nodiscard]] std::string archive() const { return state() + "/archive"; }
    [[nodiscard]] std::string images() const { return root + "/var/triton/imgadm/images"; }
    [[nodiscard]] std::string nspawn() const { return root + "/run/systemd/nspawn"; }
    [[nodiscard]] std::string networks() const { return root + std::string(network::directory); }
    [[nodiscard]] std::string volume_links() const { return root + "/run/triton/machine-volumes"; }
    /// What a machine is given of its metadata: a directory for each machine.
    [[nodiscard]] std::string metadata() const { return root + "/run/triton/metadata"; }
    [[nodiscard]] std::string links() const { return root + "/var/lib/machines"; }
    [[nodiscard]] std::string configuration() const { return root + "/etc/triton/triton.json"; }
    /// The directory of drop-ins for the unit of one machine, which must be there before systemd loads the unit at
    /// boot.
    [[nodiscard]] std::string drop_ins(Uuid const& uuid) const {
        return root + "/etc/systemd/system/systemd-nspawn@" + uuid.text() + ".service.d";
    }
};

/// Replaces a whole file: after a crash it is either the old or the new one. A missing directory is made.
Result<> replace_file(std::string const& path, std::string_view content, mode_t mode);
/// Removes a file. Succeeds also when it does not exist.
Result<> remove_file(std::string const& path);

/// The right to change one machine, until it is destroyed. The kernel takes it back from a process that dies.
class MachineLock {
public:
    explicit MachineLock(UniqueFd file) : file_(std::move(file)) {}

private:
    UniqueFd file_;
};

/// A line of the history.
struct Event {
    std::int64_t time = 0;  ///< microseconds since 1970
    Uuid uuid = {};
    std::string command = {};
    std::string outcome = {};  ///< "ok", or the error's text
    std::string detail = {};   ///< JSON; empty: none
    std::string request = {};  ///< the caller's name for the request; empty: none
};

/// A file of machines/ that is not a machine.
struct BrokenFile {
    std::string name;
    Error error;
};

/// What the state directory keeps of machines: their files, locks, journals and history.
class Store {
public:
    explicit Store(Layout layout) : layout_(std::move(layout)) {}

    [[nodiscard]] Layout const& layout() const { return layout_; }

    /// Errors: `not_found`: "VM <uuid> not found"; corrupt.
    [[nodiscard]] Result<Machine> load(Uuid const& uuid) const;
    /// A machine whose file cannot be looked for, because the disk fails, counts as one that exists: what belongs to no
    /// machine is removed.
    [[nodiscard]] bool exists(Uuid const& uuid) const;
    Result<> save(Machine const& machine) const;
    /// The same outside of an operation, at whose end the room that is kept for deletions would be restored.
    Result<> save_alone(Machine const& machine) const;
    /// Removes a machine's file and the record of its last exit.
    Result<> remove(Uuid const& uuid) const;
    /// Keeps what a machine was that is being deleted. On a full disk it takes the room that is kept for deletions.
    Result<> archive(Uuid const& uuid, std::string const& text) const;
    /// In microseconds since 1970.
    [[nodiscard]] std::int64_t modified_at(Uuid const& uuid) const;
    /// Makes it modified now, for a change of a machine that its file does not have. Nothing depends on that.
    void touch(Uuid const& uuid) const;

    /// Nothing when it has not ended yet. A corrupt file counts as nothing: it must not hide the machine.
    [[nodiscard]] std::optional<LastExit> last_exit(Uuid const& uuid) const;
    Result<> save_last_exit(Uuid const& uuid, LastExit const& exit) const;

    struct Loaded {
        std::vector<Machine> machines;  ///< by uuid
        std::vector<BrokenFile> broken;
    };
    [[nodiscard]] Result<Loaded> load_all() const;
    /// The names of files in machines/, sorted: uuids, and whatever else people put there.
    [[nodiscard]] Result<std::vector<std::string>> names() const;
    /// Why a file whose name is not a uuid is not a machine. Always an error; `not_found` when it does not exist.
    [[nodiscard]] Result<Machine> read_misnamed(std::string const& name) const;
    /// The first uid of the machine in a file that cannot be read as a whole, as far as that can be found.
    [[nodiscard]] std::optional<std::int64_t> uids_of_broken(std::string_view name) const;

    /// Whether a command of vmadm that has had the lock last is still running. What it waits for it may not hold.
    [[nodiscard]] bool is_being_changed(Uuid const& uuid) const;
    /// Waits until nobody else has the lock, for `patience` at most. `purpose`: "vmadm stop".
    /// Errors: `busy`: `VM <uuid> is in use by "vmadm update" (process 1234)`.
    [[nodiscard]] Result<MachineLock> lock(Uuid const& uuid, std::string_view purpose, milliseconds patience) const;

    /// Removes the lock file of a machine that is gone. The caller must have it locked.
    void forget_lock(Uuid const& uuid) const;

    /// The mark of an interrupted operation, if there is one. Errors: corrupt.
    [[nodiscard]] Result<std::optional<Mark>> mark(Uuid const& uuid) const;
    /// `may_use_reserve`: on a full disk it takes the room that is kept for changes of what exists already, above all
    /// for deletions. What makes something new must not, because that room would not come back.
    [[nodiscard]] std::unique_ptr<Journal> journal(Uuid const& uuid, bool may_use_reserve) const;
    /// The machines that have such a mark.
    [[nodiscard]] Result<std::vector<Uuid>> marked() const;

    /// Adds a line to the history. The newest lines are kept, at least 1 MiB of them.
    Result<> add_event(Event const& event) const;
    /// The lines of one machine or all, oldest first, as JSON.
    [[nodiscard]] Result<std::vector<std::string>> history(std::optional<Uuid> const& uuid) const;

private:
    [[nodiscard]] std::string file_of(Uuid const& uuid) const {
        return layout_.machines() + "/" + uuid.text() + ".json";
    }
    [[nodiscard]] std::string exit_of(Uuid const& uuid) const {
        return layout_.state() + "/exits/" + uuid.text() + ".json";
    }
    [[nodiscard]] std::string journal_of(Uuid const& uuid) const {
        return layout_.state() + "/journal/" + uuid.text() + ".json";
    }

    Layout layout_;
};

}  // namespace triton::machine
