#pragma once

#include <string_view>

#include "host/info/client/client.h"
#include "lib/base/uuid.h"

namespace triton::info {

/// The machine with a name, among those that vminfod knows. A whole uuid is not looked up.
/// Errors: those of Client::get() and machine::find_name().
Result<Uuid> find_machine(Client const& client, std::string_view name);

/// The same for a machine that must exist: a whole uuid is also looked up. Errors: `not_found`, in vmadm's words.
Result<Uuid> find_known(Client const& client, std::string_view name);

/// The name that a program gives itself for vminfod. `label`: what its user adds to that, or null.
std::string client_name(std::string_view program, std::string_view version, char const* label);

}  // namespace triton::info
