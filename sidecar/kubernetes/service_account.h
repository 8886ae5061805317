#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/net/certificates.h"

namespace triton::kubernetes {

/// The files that the kubelet gives a pod to speak to the API with: `token` and `ca.crt`. Both are replaced while the
/// pod runs; each is read again when it is another file than before (the kubelet swaps a link).
class ServiceAccount {
public:
    explicit ServiceAccount(std::string directory) : directory_(std::move(directory)) {}

    /// For the Authorization header. `must_read`: though it seems to be the same file.
    /// Errors: of reading; a file that holds no token.
    Result<std::string> token(bool must_read);

    /// For TLS to a server whose certificate one of ca.crt has signed. Once there was a good one, what is bad or
    /// missing later does not take its place. Errors: of reading; it has no certificate.
    Result<net::Certificates::Context> tls();

    /// The namespace that the pod is in. Errors: of reading; an empty file.
    [[nodiscard]] Result<std::string> pod_namespace() const;

private:
    /// What tells one file from another.
    struct Stamp {
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        std::int64_t size = -1;
        std::int64_t seconds = 0;
        std::int64_t nanoseconds = 0;
        bool operator==(Stamp const&) const = default;
    };
    [[nodiscard]] Stamp stamp(std::string const& path) const;

    std::string directory_;
    std::string token_;
    Stamp token_stamp_;
    net::Certificates::Context tls_;
    Stamp tls_stamp_;
};

}  // namespace triton::kubernetes
