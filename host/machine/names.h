#pragma once

#include <span>
#include <string>
#include <string_view>

#include "host/machine/host.h"
#include "host/machine/uuid.h"
#include "lib/base/result.h"

namespace triton::machine {

/// The names of a machine.
struct Names {
    Uuid uuid;
    std::string alias = {};  ///< empty: none
};

/// Finds a machine by its uuid, which need not be among them, by the beginning of one (at least four characters), or by
/// its alias.
/// Errors: `not_found`; `refused` when several match, with their uuids.
Result<Uuid> find_name(std::string_view name, std::span<Names const> machines);

/// Finds an installed image by its uuid, which need not be among them, by the beginning of one (at least four
/// characters), as NAME@VERSION, or by its name: of several versions the one that was published last.
/// Errors: `not_found`, with what is installed; `refused` when the beginning of a uuid, or a name and version, is that
/// of several, with their uuids.
Result<Uuid> find_image(std::string_view name, std::span<InstalledImage const> images);

}  // namespace triton::machine
