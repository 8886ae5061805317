#include "sidecar/agent/ui_access.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "lib/base/http_field.h"
#include "lib/base/unique_fd.h"

namespace triton::agent {

namespace {

bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

Result<std::string> read_token(std::string const& path) {
    UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    if (!file) return fail(errno, "open " + path);
    std::array<char, longest_token + 2> text{};  // whoever wrote the file decides what is in it, not how much is read
    std::size_t size = 0;
    while (size < text.size()) {
        ssize_t const more = ::read(file.get(), text.data() + size, text.size() - size);
        if (more < 0) return fail(errno, "read " + path);
        if (more == 0) break;
        size += static_cast<std::size_t>(more);
    }
    std::string token(text.data(), size);
    OPENSSL_cleanse(text.data(), text.size());
    if (token.ends_with('\n')) token.pop_back();
    if (token.size() < shortest_token)
        return fail(ErrorKind::invalid,
                    path + ": the token has fewer than " + std::to_string(shortest_token) + " characters");
    if (token.size() > longest_token)
        return fail(ErrorKind::invalid,
                    path + ": the token has more than " + std::to_string(longest_token) + " characters");
    if (!is_printable(token))
        return fail(ErrorKind::invalid, path + ": the token has characters other than printable ASCII without blanks");
    return token;
}

UiAccess::UiAccess(Settings settings)
    : settings_(std::move(settings)), has_token_(!settings_.token.empty()), token_(digest_of(settings_.token)) {
    OPENSSL_cleanse(settings_.token.data(), settings_.token.size());
    settings_.token.clear();
}

bool UiAccess::replace_token(std::string token) {
    assert(has_token_);
    Digest const digest = digest_of(token);
    OPENSSL_cleanse(token.data(), token.size());
    return std::exchange(token_, digest) != digest;
}

std::optional<UiRefusal> UiAccess::refusal_of(Claim const& claim) const {
    if (has_token_) return refusal_of_token(claim.authorization);
    if (!settings_.asks_for_certificates)
        return UiRefusal{403, "only the status is shown here: there is neither --ui-token-file nor --tls-ca-file"};
    if (!claim.has_accepted_certificate) return UiRefusal{401, "this needs a client certificate"};
    return std::nullopt;
}

std::optional<UiRefusal> UiAccess::refusal_of_token(std::string_view authorization) const {
    constexpr std::string_view scheme = "Bearer ";
    if (authorization.empty()) return UiRefusal{401, "this needs the token"};
    bool const is_bearer =
        authorization.size() > scheme.size() && are_same_letters(authorization.substr(0, scheme.size()), scheme);
    if (!is_bearer) return UiRefusal{401, "Authorization is not Bearer and the token"};
    Digest const sent = digest_of(trimmed(authorization.substr(scheme.size())));
    if (::CRYPTO_memcmp(sent.data(), token_.data(), sent.size()) != 0) return UiRefusal{401, "this is not the token"};
    return std::nullopt;
}

UiAccess::Digest UiAccess::digest_of(std::string_view text) {
    Digest digest{};
    // Without memory nobody gets in: no text has a digest of zeros.
    if (::EVP_Digest(text.data(), text.size(), digest.data(), nullptr, ::EVP_sha256(), nullptr) != 1) digest.fill(0);
    return digest;
}

}  // namespace triton::agent
