#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/content/fetcher.h"
#include "lib/base/result.h"

namespace triton::image {

/// The credential that a file in the format of ~/.docker/config.json has for a registry; none: it has none.
/// `registry`: as in a reference ("docker.io"); `host`: where it is sent ("registry-1.docker.io").
/// Errors: those of reading the file; `refused` when others than its owner may read it; `invalid`: "<path> is not an
/// authfile", with the places of what is wrong and never a value of it.
Result<std::optional<content::Credential>> credential_of(std::string const& path, std::string_view registry,
                                                         std::string host);

/// The same of a text.
Result<std::optional<content::Credential>> credential_in(std::string_view text, std::string const& path,
                                                         std::string_view registry, std::string host);

}  // namespace triton::image
