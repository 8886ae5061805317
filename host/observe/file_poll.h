#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host/machine/store.h"
#include "host/storage/pool.h"

namespace triton::observe {

/// Finds out by stat(2) which machines' files have changed since it looked before: for files that cannot be watched. It
/// blocks.
class FilePoll {
public:
    /// Both borrowed.
    FilePoll(machine::Store const& store, storage::Pool& pool) : store_(store), pool_(pool) {}

    /// The machines that have come, gone or changed. The first look finds all.
    std::vector<std::string> look();

private:
    /// Of all that its files are: another value when one of them is another file, or has another content.
    [[nodiscard]] std::uint64_t signature(std::string const& name) const;

    machine::Store const& store_;
    storage::Pool& pool_;
    std::map<std::string, std::uint64_t> known_;
};

}  // namespace triton::observe
