#pragma once

#include <string_view>

#include "host/role/digest.h"
#include "host/role/verify_messages.h"
#include "lib/base/result.h"

namespace triton::verify {

/// Certificates in PEM. Only roots are trusted by themselves.
struct Certificates {
    std::string_view signers;  ///< those whose keys can have signed, and those between them and a root
    std::string_view roots;
};

/// Checks a detached signature in Cryptographic Message Syntax (DER or PEM) over a file, which is read from its start.
/// Every signer of it must have one of the certificates, with a chain to a root, and made for signing code, mail or
/// anything. All hashes are SHA-256 or better, and all keys have the strength of RSA with 2048 bits.
/// Errors: `denied`: "certificate of CN=x is not trusted: certificate has expired"; `corrupt` for anything but such a
/// signature; `invalid`: "there are no roots", "certificate 2 is broken". Source: RFC 5652.
Result<role::Signed> check_cms(int file, std::string_view signature, Certificates const& certificates);

/// Checks a bare signature over a SHA-256 digest: ECDSA with P-256, in DER or as r and s of 32 bytes each; or RSA,
/// PKCS #1 version 1.5. It is binary or Base64. Errors: as above.
/// Source: EVE, pkg/pillar/cmd/verifier, 2019.
Result<role::Signed> check_bare_signature(role::Digest const& digest, std::string_view signature,
                                          Certificates const& certificates);

}  // namespace triton::verify
