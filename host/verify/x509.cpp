#include "host/verify/x509.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <openssl/bio.h>
#include <openssl/pem.h>

#include "lib/text/base64.h"

// Declares PEM_read_bio_CMS() only after <openssl/pem.h>.
#include <openssl/cms.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

namespace triton::verify {

namespace {

constexpr std::size_t most_certificates = 64;  // of one list; whoever signs decides about it
constexpr int longest_chain = 8;
constexpr int least_security = 2;  // of OpenSSL: 112 bits
constexpr std::size_t p256_number_bytes = 32;
constexpr std::string_view pem_begin = "-----BEGIN ";

template <auto release>
struct Release {
    template <class T>
    void operator()(T* object) const {
        release(object);
    }
};
using Bio = std::unique_ptr<BIO, Release<&BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Release<&X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Release<&EVP_PKEY_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Release<&EVP_PKEY_CTX_free>>;
using Roots = std::unique_ptr<X509_STORE, Release<&X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Release<&X509_STORE_CTX_free>>;
using SignedMessage = std::unique_ptr<CMS_ContentInfo, Release<&CMS_ContentInfo_free>>;
using List = std::unique_ptr<STACK_OF(X509), decltype([](STACK_OF(X509) * list) { sk_X509_free(list); })>;

std::unexpected<Error> untrusted_signature(std::string reason) { return fail(ErrorKind::denied, std::move(reason)); }
std::unexpected<Error> no_cms(std::string const& reason) {
    return fail(ErrorKind::corrupt, "signature is not one of CMS: " + reason);
}

Bio memory_of(std::string_view text) {
    Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    if (!bio) throw std::bad_alloc();
    return bio;
}

/// A certificate that is encrypted is none; without this OpenSSL would ask a terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) { return -1; }

Result<std::vector<Certificate>> read_certificates(std::string_view text) {
    std::vector<Certificate> all;
    Bio const bio = memory_of(text);
    for (;;) {
        Certificate one(PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr));
        if (!one) break;
        if (all.size() == most_certificates)
            return fail("there are more than " + std::to_string(most_certificates) + " certificates");
        all.push_back(std::move(one));
    }
    bool const is_at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (!is_at_end) return fail("certificate " + std::to_string(all.size() + 1) + " is broken");
    return all;
}

/// The subject as openssl(1) shows it: "CN=release,O=Example", with escapes for what is not printable.
std::string shown_subject(X509* certificate) {
    Bio const bio(BIO_new(BIO_s_mem()));
    char* text = nullptr;
    if (!bio || X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) < 0) return "?";
    long const size = BIO_get_mem_data(bio.get(), &text);
    constexpr long longest_shown = 200;
    return {text, static_cast<std::size_t>(std::clamp(size, 0L, longest_shown))};
}

/// SHA-256 of the certificate, by which people tell certificates apart.
std::string fingerprint_of(X509* certificate) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned size = 0;
    if (X509_digest(certificate, EVP_sha256(), bytes.data(), &size) != 1) throw std::bad_alloc();
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (unsigned char const byte : std::span(bytes).first(size)) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

role::Signed signed_by(X509* certificate) {
    return {.key = fingerprint_of(certificate), .comment = shown_subject(certificate)};
}

/// Both lists, as OpenSSL takes them.
class Trust {
public:
    static Result<Trust> of(Certificates const& certificates) {
        Trust trust;
        auto signers = read_certificates(certificates.signers);
        if (!signers) return fail(signers.error().kind, "certificates of the signer: " + signers.error().text());
        if (signers->empty()) return fail("there are no certificates of the signer");
        auto roots = read_certificates(certificates.roots);
        if (!roots) return fail(roots.error().kind, "roots: " + roots.error().text());
        if (roots->empty()) return fail("there are no roots");
        trust.signers_ = *std::move(signers);
        trust.list_ = List(sk_X509_new_null());
        trust.store_ = Roots(X509_STORE_new());
        if (!trust.list_ || !trust.store_) throw std::bad_alloc();
        for (Certificate const& one : trust.signers_)
            if (sk_X509_push(trust.list_.get(), one.get()) <= 0) throw std::bad_alloc();
        for (Certificate const& one : *roots)
            if (X509_STORE_add_cert(trust.store_.get(), one.get()) != 1) throw std::bad_alloc();
        return trust;
    }

    [[nodiscard]] std::vector<Certificate> const& signers() const { return signers_; }
    [[nodiscard]] STACK_OF(X509) * list() const { return list_.get(); }

    /// Errors: `denied`: it is not for signatures, or does not lead to a root that is valid now.
    Result<> check(X509* signer) const {
        TRY(check_usage(signer));
        Verification const verification(X509_STORE_CTX_new());
        // The roots are all that is trusted: a chain that ends at a certificate between is none.
        if (!verification || X509_STORE_CTX_init(verification.get(), store_.get(), signer, list_.get()) != 1)
            throw std::bad_alloc();
        X509_VERIFY_PARAM* const limits = X509_STORE_CTX_get0_param(verification.get());
        X509_VERIFY_PARAM_set_auth_level(limits, least_security);
        X509_VERIFY_PARAM_set_depth(limits, longest_chain);
        if (X509_verify_cert(verification.get()) == 1) return {};
        int const reason = X509_STORE_CTX_get_error(verification.get());
        X509* const where = X509_STORE_CTX_get_current_cert(verification.get());
        return untrusted_signature("certificate of " + shown_subject(where ? where : signer) +
                                   " is not trusted: " + X509_verify_cert_error_string(reason));
    }

private:
    /// A certificate for a server says nothing about what its owner may sign.
    static Result<> check_usage(X509* signer) {
        constexpr std::uint32_t good_key = KU_DIGITAL_SIGNATURE | KU_NON_REPUDIATION;
        constexpr std::uint32_t good_use = XKU_CODE_SIGN | XKU_SMIME | XKU_ANYEKU;
        bool const is_for_signatures =
            (X509_get_key_usage(signer) & good_key) != 0 && (X509_get_extended_key_usage(signer) & good_use) != 0;
        if (is_for_signatures) return {};
        return untrusted_signature("certificate of " + shown_subject(signer) +
                                   " is not for signing content: its usage is other");
    }

    std::vector<Certificate> signers_;
    List list_;  // borrows them
    Roots store_;
};

// Cryptographic SignedMessage Syntax.

Result<SignedMessage> parse_message(std::string_view signature) {
    Bio const bio = memory_of(signature);
    SignedMessage message(signature.contains(pem_begin) ? PEM_read_bio_CMS(bio.get(), nullptr, no_password, nullptr)
                                                        : d2i_CMS_bio(bio.get(), nullptr));
    ERR_clear_error();
    if (!message) return no_cms("it cannot be read");
    if (OBJ_obj2nid(CMS_get0_type(message.get())) != NID_pkcs7_signed) return no_cms("nothing in it is signed");
    if (CMS_is_detached(message.get()) != 1) return no_cms("it contains content of its own");
    return message;
}

Result<> check_hashes(CMS_ContentInfo* message) {
    STACK_OF(CMS_SignerInfo)* const infos = CMS_get0_SignerInfos(message);
    int const count = infos ? sk_CMS_SignerInfo_num(infos) : 0;
    if (count <= 0) return no_cms("it has no signer");
    for (int i = 0; i < count; ++i) {
        X509_ALGOR* hash = nullptr;
        CMS_SignerInfo_get0_algs(sk_CMS_SignerInfo_value(infos, i), nullptr, nullptr, &hash, nullptr);
        int const id = hash ? OBJ_obj2nid(hash->algorithm) : NID_undef;
        if (id != NID_sha256 && id != NID_sha384 && id != NID_sha512)
            return untrusted_signature("signature is by a hash that is not SHA-256, SHA-384 or SHA-512");
    }
    return {};
}

std::string last_reason() {
    char const* const reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "unknown";
}

// Bare signatures.

/// Base64, with line ends, or the bytes themselves.
std::string bare_bytes(std::string_view signature) {
    std::string text(signature);
    std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
    if (auto decoded = text::decode_base64(text)) return *std::move(decoded);
    return std::string(signature);
}

/// r and s as numbers of 32 bytes each become what OpenSSL takes.
std::optional<std::string> der_of_numbers(std::string_view bytes) {
    auto const* const start = reinterpret_cast<unsigned char const*>(bytes.data());
    using Numbers = std::unique_ptr<ECDSA_SIG, Release<&ECDSA_SIG_free>>;
    Numbers const numbers(ECDSA_SIG_new());
    BIGNUM* const r = BN_bin2bn(start, static_cast<int>(p256_number_bytes), nullptr);
    BIGNUM* const s = BN_bin2bn(start + p256_number_bytes, static_cast<int>(p256_number_bytes), nullptr);
    if (!numbers || !r || !s || ECDSA_SIG_set0(numbers.get(), r, s) != 1) throw std::bad_alloc();
    unsigned char* der = nullptr;
    int const size = i2d_ECDSA_SIG(numbers.get(), &der);
    if (size <= 0) return std::nullopt;
    std::string text(reinterpret_cast<char const*>(der), static_cast<std::size_t>(size));
    OPENSSL_free(der);
    return text;
}

bool is_p256(EVP_PKEY* key) {
    std::array<char, 64> group{};
    std::size_t size = 0;
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(key, group.data(), group.size(), &size) == 1 &&
           std::string_view(group.data(), size) == SN_X9_62_prime256v1;
}

/// Whether the key of a certificate has made the signature.
bool has_signed(X509* certificate, role::Digest const& digest, std::string bytes) {
    EVP_PKEY* const key = X509_get0_pubkey(certificate);
    bool const is_rsa = key && EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA;
    if (!key || (!is_rsa && !is_p256(key))) return false;
    if (!is_rsa && bytes.size() == 2 * p256_number_bytes) {
        auto der = der_of_numbers(bytes);
        if (!der) return false;
        bytes = *std::move(der);
    }
    KeyContext const context(EVP_PKEY_CTX_new(key, nullptr));
    std::array<unsigned char, 32> hash{};
    std::size_t hash_size = 0;
    bool const is_hash = OPENSSL_hexstr2buf_ex(hash.data(), hash.size(), &hash_size, digest.hex().c_str(), '\0') == 1;
    bool const is_good = is_hash && context && EVP_PKEY_verify_init(context.get()) == 1 &&
                         (!is_rsa || EVP_PKEY_CTX_set_rsa_padding(context.get(), RSA_PKCS1_PADDING) == 1) &&
                         EVP_PKEY_CTX_set_signature_md(context.get(), EVP_sha256()) == 1 &&
                         EVP_PKEY_verify(context.get(), reinterpret_cast<unsigned char const*>(bytes.data()),
                                         bytes.size(), hash.data(), hash.size()) == 1;
    ERR_clear_error();
    return is_good;
}

}  // namespace

Result<role::Signed> check_cms(int file, std::string_view signature, Certificates const& certificates) {
    Trust const trust = TRY(Trust::of(certificates));
    SignedMessage const message = TRY(parse_message(signature));
    TRY(check_hashes(message.get()));
    if (::lseek(file, 0, SEEK_SET) != 0) return fail(errno, "read the signed file");
    Bio const content(BIO_new_fd(file, BIO_NOCLOSE));
    if (!content) throw std::bad_alloc();
    // Certificates that come with the signature are not looked at; ours are checked below, all in one way.
    constexpr unsigned flags = CMS_BINARY | CMS_NOINTERN | CMS_NO_SIGNER_CERT_VERIFY | CMS_NOCRL;
    if (CMS_verify(message.get(), trust.list(), nullptr, content.get(), nullptr, flags) != 1)
        return untrusted_signature("signature is not good: " + last_reason());
    List const signers(CMS_get0_signers(message.get()));
    int const count = signers ? sk_X509_num(signers.get()) : 0;
    if (count <= 0) return untrusted_signature("signature is not good: nobody has signed it");
    for (int i = 0; i < count; ++i)
        TRY(trust.check(sk_X509_value(signers.get(), i)));
    return signed_by(sk_X509_value(signers.get(), 0));
}

Result<role::Signed> check_bare_signature(role::Digest const& digest, std::string_view signature,
                                          Certificates const& certificates) {
    Trust const trust = TRY(Trust::of(certificates));
    std::string const bytes = bare_bytes(signature);
    std::optional<Error> error;
    for (Certificate const& signer : trust.signers()) {
        if (!has_signed(signer.get(), digest, bytes)) continue;
        // A key can have several certificates: one that has expired, and its successor.
        auto checked = trust.check(signer.get());
        if (checked) return signed_by(signer.get());
        if (!error) error = std::move(checked).error();
    }
    if (error) return std::unexpected(*std::move(error));
    return untrusted_signature("signature over " + digest.text() + " is by none of the " +
                               std::to_string(trust.signers().size()) + " certificates of the signer");
}

}  // namespace triton::verify
