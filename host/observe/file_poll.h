#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "host/machine/store.h"
#include "host/storage/pool.h"

namespace triton::observe {

/// Finds by stat(2) which machines' files have changed since its last look: for files that cannot be watched. It
/// blocks.
class FilePoll {
public:
    /// The first two are borrowed. `unit_controls`: where systemd keeps the changes of set-property.
    FilePoll(machine::Store const& store, storage::Pool& pool, std::vector<std::string> unit_controls)
        : store_(store), pool_(pool), unit_controls_(std::move(unit_controls)) {}

    /// The machines that were created, deleted or changed. The first look finds all.
    std::vector<std::string> look();

private:
    /// A number made of the state of all files of a machine: it changes when one of them is replaced or gets another
    /// content.
    [[nodiscard]] std::uint64_t signature(std::string const& name) const;

    machine::Store const& store_;
    storage::Pool& pool_;
    std::vector<std::string> unit_controls_;
    std::map<std::string, std::uint64_t> known_;
};

}  // namespace triton::observe
