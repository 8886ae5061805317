#pragma once

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

/// Removes what is left of commands that were killed before their first mark, or while they wrote a file.
void forget_strays(Store const& store);

}  // namespace triton::machine
