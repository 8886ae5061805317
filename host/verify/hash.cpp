#include "host/verify/hash.h"

#include <array>
#include <new>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace triton::verify {

namespace {

EVP_MD const* method(Hash::Algorithm algorithm) {
    switch (algorithm) {
        case Hash::Algorithm::sha256: return EVP_sha256();
        case Hash::Algorithm::sha1: return EVP_sha1();
        case Hash::Algorithm::blake2b: return EVP_blake2b512();
    }
    std::unreachable();
}

}  // namespace

void prepare_openssl() {
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
    for (Hash::Algorithm const algorithm : {Hash::Algorithm::sha256, Hash::Algorithm::sha1, Hash::Algorithm::blake2b})
        (void)Hash(algorithm);
}

void Hash::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Hash::Hash(Algorithm algorithm) : context_(EVP_MD_CTX_new()) {
    // Fails only for lack of memory: all three methods are in OpenSSL's default provider.
    if (!context_ || EVP_DigestInit_ex(context_.get(), method(algorithm), nullptr) != 1) throw std::bad_alloc();
}

void Hash::add(std::span<char const> bytes) {
    if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
}

std::string Hash::take_bytes() && {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context_.get(), bytes.data(), &size) != 1) throw std::bad_alloc();
    return {reinterpret_cast<char const*>(bytes.data()), size};
}

std::string Hash::take_hex() && {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    for (char const byte : std::move(*this).take_bytes()) {
        hex += digits[static_cast<unsigned char>(byte) >> 4];
        hex += digits[static_cast<unsigned char>(byte) & 15];
    }
    return hex;
}

Fingerprint::Fingerprint(bool with_sha1) : sha256_(Hash::Algorithm::sha256) {
    if (with_sha1) sha1_.emplace(Hash::Algorithm::sha1);
}

void Fingerprint::add(std::span<char const> bytes) {
    size_ += bytes.size();
    sha256_.add(bytes);
    if (sha1_) sha1_->add(bytes);
}

Result<> check_size(std::uint64_t size, role::Expected const& expected) {
    if (expected.size && size != *expected.size)
        return fail(ErrorKind::corrupt,
                    "size is " + std::to_string(size) + " bytes instead of " + std::to_string(*expected.size));
    if (size > expected.maximum)
        return fail(ErrorKind::corrupt, "size is more than " + std::to_string(expected.maximum) + " bytes");
    return {};
}

Result<role::Verified> Fingerprint::check(role::Expected const& expected) && {
    TRY(check_size(size_, expected));
    role::Digest const digest = TRY(role::Digest::of_hex(std::move(sha256_).take_hex()));
    if (expected.digest && digest != *expected.digest)
        return fail(ErrorKind::corrupt, "digest is " + digest.text() + " instead of " + expected.digest->text());
    if (expected.sha1) {
        std::string const sha1 = std::move(*sha1_).take_hex();
        if (sha1 != *expected.sha1)
            return fail(ErrorKind::corrupt, "SHA-1 is " + sha1 + " instead of " + *expected.sha1);
    }
    return role::Verified{.size = size_, .digest = digest};
}

}  // namespace triton::verify
