#pragma once

#include <string>
#include <vector>

#include "host/role/sandbox.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::verify {

/// A file of sums that somebody who is trusted has signed.
struct SignedSums {
    std::string text;
    std::string key;  ///< fingerprint of the key
};

/// Checks the signature of SHA256SUMS by gpgv, which runs in a sandbox of its own: it sees the system's programs and
/// libraries, the three files, and nothing else. This process confines itself before it reads what was signed.
/// `files`: sums, signature (empty: the sums are signed inline), certificates.
/// Errors: `denied` when it is not good; `unsupported`: "gpgv is not installed"; `corrupt`.
Result<SignedSums> check_sums(role::Started const& started, std::vector<UniqueFd> files);

}  // namespace triton::verify
