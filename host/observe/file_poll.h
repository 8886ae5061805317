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

/// Finds out by stat(2) which machines' files have changed since it looked before: for files that cannot be watched. It
/// blocks.
class FilePoll {
public:
    /// The first two are borrowed. `unit_controls`: where systemd keeps what set-property changes.
    FilePoll(machine::Store const& store, storage::Pool& pool, std::vector<std::string> unit_controls)
        : store_(store), pool_(pool), unit_controls_(std::move(unit_controls)) {}

    /// The machines that have come, gone or changed. The first look finds all.
    std::vector<std::string> look();

private:
    /// Of everything that its files are: another value when one of them is another file, or has another content.
    [[nodiscard]] std::uint64_t signature(std::string const& name) const;

    machine::Store const& store_;
    storage::Pool& pool_;
    std::vector<std::string> unit_controls_;
    std::map<std::string, std::uint64_t> known_;
};

}  // namespace triton::observe
