#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "host/role/digest.h"
#include "host/role/verify_messages.h"
#include "lib/base/result.h"

struct evp_md_ctx_st;

namespace triton::verify {

/// Makes OpenSSL load its hashes, without any configuration. To be called before a sandbox closes.
void prepare_openssl();

/// One hash of a stream of bytes, by OpenSSL.
class Hash {
public:
    enum class Algorithm : std::uint8_t { sha256, sha1, blake2b };
    explicit Hash(Algorithm algorithm);

    void add(std::span<char const> bytes);
    /// The object is used up by these two functions.
    [[nodiscard]] std::string take_bytes() &&;
    [[nodiscard]] std::string take_hex() &&;

private:
    struct Free {
        void operator()(evp_md_ctx_st* context) const;
    };
    std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// The hashes by which a file is checked: always SHA-256, and SHA-1 when there is nothing better.
class Fingerprint {
public:
    explicit Fingerprint(bool with_sha1);
    void add(std::span<char const> bytes);
    [[nodiscard]] std::uint64_t size() const { return size_; }

    /// Checks the result against what was expected, the size first, because that is cheaper.
    /// Errors: `corrupt`: "size is 5 bytes instead of 6", "digest is sha256:... instead of sha256:...".
    [[nodiscard]] Result<role::Verified> check(role::Expected const& expected) &&;

private:
    std::uint64_t size_ = 0;
    Hash sha256_;
    std::optional<Hash> sha1_;
};

/// Errors: `corrupt`, as above.
Result<> check_size(std::uint64_t size, role::Expected const& expected);

}  // namespace triton::verify
