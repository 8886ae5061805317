#include "host/verify/minisign.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <openssl/evp.h>

#include "host/verify/hash.h"
#include "lib/text/base64.h"

namespace triton::verify {

namespace {

constexpr std::size_t algorithm_bytes = 2;
constexpr std::size_t id_bytes = 8;
constexpr std::size_t key_bytes = 32;
constexpr std::size_t signature_bytes = 64;
constexpr std::size_t most_keys = 64;
constexpr std::string_view untrusted = "untrusted comment:";
constexpr std::string_view trusted = "trusted comment: ";
constexpr std::string_view legacy = "Ed";
constexpr std::string_view prehashed = "ED";

std::unexpected<Error> no_signature(std::string reason) {
    return fail(ErrorKind::corrupt, "signature is not one of minisign: " + reason);
}
std::unexpected<Error> denied(std::string reason) { return fail(ErrorKind::denied, std::move(reason)); }

std::string_view take_line(std::string_view& text) {
    std::size_t const end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

struct Signature {
    std::string algorithm;
    std::string id;
    std::string bytes;
    std::string trusted_comment;
    std::string global;  // signature over bytes and trusted_comment
};

Result<Signature> parse_signature(std::string_view text) {
    if (!take_line(text).starts_with(untrusted)) return no_signature("its first line is not an untrusted comment");
    auto const first = text::decode_base64(take_line(text));
    if (!first || first->size() != algorithm_bytes + id_bytes + signature_bytes)
        return no_signature("its second line is not a signature");
    std::string_view const comment = take_line(text);
    if (!comment.starts_with(trusted)) return no_signature("its third line is not a trusted comment");
    auto const global = text::decode_base64(take_line(text));
    if (!global || global->size() != signature_bytes) return no_signature("its fourth line is not a signature");
    return Signature{.algorithm = first->substr(0, algorithm_bytes),
                     .id = first->substr(algorithm_bytes, id_bytes),
                     .bytes = first->substr(algorithm_bytes + id_bytes),
                     .trusted_comment = std::string(comment.substr(trusted.size())),
                     .global = *global};
}

/// An id as minisign shows it: its eight bytes as a number, low byte first.
std::string shown_id(std::string_view id) {
    static constexpr std::string_view digits = "0123456789ABCDEF";
    std::string text;
    for (std::size_t i = id.size(); i-- > 0;) {
        text += digits[static_cast<unsigned char>(id[i]) >> 4];
        text += digits[static_cast<unsigned char>(id[i]) & 15];
    }
    return text;
}

/// The public key with that id. Lines that are not keys are skipped: we could not trust them.
std::optional<std::string> find_key(std::string_view keys, std::string_view id) {
    for (std::size_t i = 0; i < most_keys && !keys.empty(); ++i) {
        auto const key = text::decode_base64(take_line(keys));
        if (key && key->size() == algorithm_bytes + id_bytes + key_bytes && key->starts_with(legacy) &&
            key->substr(algorithm_bytes, id_bytes) == id)
            return key->substr(algorithm_bytes + id_bytes);
    }
    return std::nullopt;
}

unsigned char const* bytes_of(std::span<char const> text) {
    return reinterpret_cast<unsigned char const*>(text.data());
}

bool is_signed(std::string_view key, std::span<char const> content, std::string_view signature) {
    using Key = std::unique_ptr<EVP_PKEY, decltype([](EVP_PKEY* one) { EVP_PKEY_free(one); })>;
    using Context = std::unique_ptr<EVP_MD_CTX, decltype([](EVP_MD_CTX* one) { EVP_MD_CTX_free(one); })>;
    Key const public_key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(key), key.size()));
    Context const context(EVP_MD_CTX_new());
    return public_key && context &&
           EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) == 1 &&
           EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(content), content.size()) ==
               1;
}

}  // namespace

Result<role::Signed> check_minisign(std::span<char const> content, std::string_view signature, std::string_view keys) {
    Signature const parsed = TRY(parse_signature(signature));
    auto const key = find_key(keys, parsed.id);
    if (!key) return denied("signature is by key " + shown_id(parsed.id) + ", which is not trusted");
    bool is_good = false;
    if (parsed.algorithm == legacy) {
        is_good = is_signed(*key, content, parsed.bytes);
    } else if (parsed.algorithm == prehashed) {
        Hash hash(Hash::Algorithm::blake2b);
        hash.add(content);
        is_good = is_signed(*key, std::move(hash).take_bytes(), parsed.bytes);
    } else {
        return no_signature("its algorithm is unknown");
    }
    if (!is_good) return denied("signature by key " + shown_id(parsed.id) + " is not good");
    if (!is_signed(*key, parsed.bytes + parsed.trusted_comment, parsed.global))
        return denied("trusted comment of the signature by key " + shown_id(parsed.id) + " is not good");
    return role::Signed{.key = shown_id(parsed.id), .comment = parsed.trusted_comment};
}

bool names_file(std::string_view trusted_comment, std::string_view name) {
    while (!trusted_comment.empty()) {
        std::size_t const tab = std::min(trusted_comment.find('\t'), trusted_comment.size());
        std::string_view const field = trusted_comment.substr(0, tab);
        if (field.starts_with("file:")) return field.substr(5) == name;
        trusted_comment.remove_prefix(std::min(tab + 1, trusted_comment.size()));
    }
    return false;
}

}  // namespace triton::verify
