#include "host/image/chain_id.h"

#include <cassert>

#include "lib/files/sha256.h"

namespace triton::image {

std::string chain_id(std::span<std::string const> diff_ids) {
    assert(!diff_ids.empty());
    std::string chain = diff_ids.front();
    for (std::string const& diff_id : diff_ids.subspan(1))
        chain = extend_chain(chain, diff_id);
    return chain;
}

std::string extend_chain(std::string_view parent, std::string_view diff_id) {
    std::string const input = std::string(parent).append(" ").append(diff_id);
    files::Sha256 hash;
    hash.add(input);
    return "sha256:" + std::move(hash).take_hex();
}

std::string plain_chain_id(std::string_view diff_id) { return extend_chain("plain", diff_id); }

}  // namespace triton::image
