#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/content/fetcher.h"
#include "lib/base/result.h"

namespace triton::image {

/// What an authfile has for a registry.
struct FoundCredential {
    std::optional<content::Credential> credential = {};
    std::string warning = {};  ///< why its credential helper could not be asked; empty: there is nothing to say
};

/// Finds the credential for an image in a file in the format of ~/.docker/config.json. `name`: its registry as in a
/// reference, with the repository ("docker.io/library/alpine"), or a host alone; of several keys the longest counts.
/// `host`: where the credential is sent ("registry-1.docker.io"). A credential helper that the file names is run, if
/// the file is ours; `cancel`: as in process::Command. Errors: those of reading the file; `refused` when others than
/// its owner may read it; `invalid`: "<path> is not an authfile", with the places of what is wrong, but never a value.
/// Source: docker, "docker login"; containers-auth.json(5).
Result<FoundCredential> credential_of(std::string const& path, std::string_view name, std::string host,
                                      int cancel = -1);

/// The same for the text of such a file, without helpers.
Result<std::optional<content::Credential>> credential_in(std::string_view text, std::string const& path,
                                                         std::string_view name, std::string host);

}  // namespace triton::image
