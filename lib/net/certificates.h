#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <openssl/ssl.h>

#include "lib/base/result.h"

namespace triton::net {

struct CertificateFiles {
    std::string certificate;  ///< PEM, the chain after it
    std::string key;          ///< PEM
    std::string authority;    ///< PEM, of the peers; empty: no certificate is asked for
    std::string password;     ///< of the key; empty: none
    /// Of TLS 1.2, in OpenSSL's words. Without static RSA, which has no forward secrecy, and without CBC.
    std::string ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
    bool wants_tls13 = false;  ///< TLS 1.2 is not spoken
};

/// The certificates of TLS connections. Connections keep theirs; new ones get the latest valid files.
class Certificates {
public:
    using Context = std::shared_ptr<SSL_CTX>;

    /// Errors: files that cannot be read or are neither a certificate nor a key, a key of another certificate.
    static Result<Certificates> load(CertificateFiles files);

    [[nodiscard]] Context const& context() const { return current_.context; }
    /// When our own certificate ends, in seconds since 1970.
    [[nodiscard]] std::int64_t not_after() const { return current_.not_after; }
    [[nodiscard]] bool has_expired(std::int64_t now) const { return now > current_.not_after; }

    /// Reads the files again and takes them if they are good. Returns whether they are others than before.
    /// Errors: as load(), and a certificate that has expired; then all stays as it was.
    Result<bool> reload(std::int64_t now);

    [[nodiscard]] CertificateFiles const& files() const { return files_; }

private:
    struct Loaded {
        Context context;
        std::int64_t not_after = 0;
        std::string content;  // of all files, to compare
    };
    explicit Certificates(CertificateFiles files) : files_(std::move(files)) {}
    static Result<Loaded> read(CertificateFiles const& files);

    CertificateFiles files_;
    Loaded current_;
};

/// For clients of servers whose certificate one of these (PEM) has signed, by TLS 1.2 or later. What does not belong
/// there is passed over. Errors: there is none in it.
Result<Certificates::Context> client_context(std::string const& authorities);
/// For clients that trust anybody.
Result<Certificates::Context> trusting_client_context();

/// Before a client's handshake: the server's certificate must be good for this host, a name or an address. Returns
/// whether OpenSSL could be told.
bool expect_host(SSL* tls, std::string const& host);

/// OpenSSL without its configuration file, which would load modules (a static program has none). Once, before all else.
void initialize_openssl();

}  // namespace triton::net
