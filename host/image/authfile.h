#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/content/fetcher.h"
#include "lib/base/result.h"

namespace triton::image {

/// The credential for a registry in a file in the format of ~/.docker/config.json; nothing if it has none. `registry`:
/// as in a reference ("docker.io"); `host`: where it is sent ("registry-1.docker.io").
/// Errors: those of reading the file; `refused` when others than its owner may read it; `invalid`: "<path> is not an
/// authfile", with the places of what is wrong, but never a value.
Result<std::optional<content::Credential>> credential_of(std::string const& path, std::string_view registry,
                                                         std::string host);

/// The same for the text of such a file.
Result<std::optional<content::Credential>> credential_in(std::string_view text, std::string const& path,
                                                         std::string_view registry, std::string host);

}  // namespace triton::image
