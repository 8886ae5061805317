#pragma once

#include <span>
#include <string>
#include <string_view>

#include "host/role/verify_messages.h"
#include "lib/base/result.h"

namespace triton::verify {

/// Checks a signature by minisign over `content`, legacy or prehashed, and its trusted comment. `keys`: public keys,
/// one a line; comments are skipped. Errors: `denied`: "signature is by key 1234567890ABCDEF, which is not trusted",
/// "signature is not good"; `corrupt` for anything but a signature. Source: https://jedisct1.github.io/minisign/,
/// "Signature format"
Result<role::Signed> check_minisign(std::span<char const> content, std::string_view signature, std::string_view keys);

/// Whether the trusted comment says that the signed file has this name: "timestamp:1\tfile:x\thashed".
bool names_file(std::string_view trusted_comment, std::string_view name);

}  // namespace triton::verify
