#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/role/sandbox.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::verify {

/// A file of sums with a trusted signature.
struct SignedSums {
    std::string text;
    std::string key;  ///< fingerprint of the primary key
};

/// Checks the signature of SHA256SUMS by gpgv, which runs in its own sandbox: it sees the programs and libraries of the
/// system and three files. This process confines itself before it reads what gpgv says. `files`: sums, signature
/// (empty: the sums are signed inline), certificates, armored or not.
/// Errors: `denied`: "signature is not good", with what gpgv said; `unsupported`: "gpgv is not installed".
Result<SignedSums> check_sums(role::Started const& started, std::vector<UniqueFd> const& files);

/// Checks a detached signature of OpenPGP over a file of any size in the same way; gpgv has the file as its standard
/// input. `files`: the file, the signature, certificates. Returns the fingerprint of the primary key. Errors: as above.
Result<std::string> check_detached(role::Started const& started, std::vector<UniqueFd> const& files);

/// The fingerprint of the first good signature that gpgv reports with --status-fd. Errors: `denied`: there is none, or
/// one by a known key is bad or expired, or its key is expired or revoked.
/// Source: GnuPG, doc/DETAILS, "VALIDSIG"
Result<std::string> read_status(std::string_view status);

/// Whether gpgv has nothing to complain of but signatures by keys that it does not have.
bool has_unknown_keys_only(std::string_view status);

/// Converts certificates to binary, as gpgv wants them: any number in armor, and binary ones before them. Errors:
/// `invalid` for broken armor.
Result<std::string> without_armor(std::string_view certificates);

}  // namespace triton::verify
