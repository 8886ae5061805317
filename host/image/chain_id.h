#pragma once

#include <span>
#include <string>
#include <string_view>

namespace triton::image {

/// The name of a file system that is made by applying layers one over the other: "sha256:<hex>". Two images with the
/// same first layers share those by that name. Source: OCI image-spec, config.md, "Layer ChainID".
///
/// `diff_ids`: "sha256:<hex>" each, checked before, lowest first, at least one.
std::string chain_id(std::span<std::string const> diff_ids);

/// The name after one more layer.
std::string extend_chain(std::string_view parent, std::string_view diff_id);

/// The name of the file system in an archive whose names have no special meaning. As a layer, with whiteouts, the same
/// bytes are another one, which chain_id() names.
std::string plain_chain_id(std::string_view diff_id);

}  // namespace triton::image
