#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/content/fetcher.h"
#include "lib/base/result.h"

namespace triton::image {

/// Asks a credential helper, "docker-credential-<name>" in PATH, for the credential of a server, which is that of a
/// registry: "registry.example:5000". It runs as we do, for a minute at most. `cancel`: as in process::Command.
/// Returns nothing when it has none. The host of the credential is left empty.
/// Errors: `unsupported` when it is not installed; `unavailable` when it fails, with its last line; `refused`:
/// cancelled. No error has a secret in it. Source: docker-credential-helpers, README.md, "Development".
Result<std::optional<content::Credential>> ask_credential_helper(std::string_view name, std::string const& server,
                                                                 int cancel);

}  // namespace triton::image
