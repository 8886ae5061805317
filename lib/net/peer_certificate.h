#pragma once

#include <optional>
#include <string>

#include <openssl/ssl.h>

#include "lib/net/verify_peers.h"

namespace triton::net {

/// OpenSSL's errors of a chain, collected while it is verified. The handshake continues nevertheless, so that
/// the peer gets an answer that says why, and so that rules may overlook faults.
struct ChainFaults {
    ChainValidity validity = ChainValidity::valid;
    std::string problem;  ///< the first

    /// For SSL_CTX_set_verify(3): collects into the ChainFaults that attach() has given to the connection, and lets
    /// everything through. Without one, what is invalid stays so.
    static int collect(int is_good, X509_STORE_CTX* store);
    /// `faults` must live as long as the handshake.
    static void attach(SSL* ssl, ChainFaults* faults);
};

/// What the peer of a finished handshake has shown; nullopt when it has shown no certificate.
std::optional<PeerCertificate> peer_certificate(SSL* ssl, ChainFaults const& faults);

/// The same of a chain of certificates, the peer's own first, not empty.
PeerCertificate describe_chain(STACK_OF(X509) const* chain, ChainFaults const& faults);

}  // namespace triton::net
