#pragma once

#include <optional>
#include <utility>

#include "host/machine/store.h"
#include "host/machine/uuid.h"

namespace triton::machine {

/// Removes the lock file, before the lock is given back, when the machine does not exist or is gone. For every command
/// that locks a machine: whoever has waited for the one that deleted it makes the file again.
class LockFile {
public:
    LockFile(Store const& store, Uuid const& uuid) : store_(store), uuid_(uuid) {}
    LockFile(LockFile const&) = delete;
    LockFile& operator=(LockFile const&) = delete;
    ~LockFile();

private:
    Store const& store_;
    Uuid uuid_;
};

/// A machine that this command has to itself, until it only waits for systemd: somebody else may stop the machine then.
class OwnMachine {
public:
    OwnMachine(MachineLock lock, Store const& store, Uuid const& uuid)
        : held_(std::in_place, std::move(lock), store, uuid) {}
    void give_back() { held_.reset(); }

private:
    struct Held {
        Held(MachineLock own, Store const& store, Uuid const& uuid) : lock(std::move(own)), file(store, uuid) {}
        MachineLock lock;
        LockFile file;
    };
    std::optional<Held> held_;
};

/// Removes what is left of commands that were killed before their first mark, or while they wrote a file.
void forget_strays(Store const& store);

}  // namespace triton::machine
