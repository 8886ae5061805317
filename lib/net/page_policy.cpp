#include "lib/net/page_policy.h"

#include <array>

#include <openssl/evp.h>

namespace triton::net {

namespace {

/// Returns " 'sha256-<base64>'" of a text.
std::string source_of(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    if (::EVP_Digest(text.data(), text.size(), digest.data(), &size, ::EVP_sha256(), nullptr) != 1) return {};
    std::array<unsigned char, EVP_MAX_MD_SIZE * 2> encoded{};
    int const length = ::EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(size));
    std::string source = " 'sha256-";
    source.append(encoded.begin(), encoded.begin() + length).append("'");
    return source;
}

/// The hashes of the texts between these tags, or 'none'.
std::string sources_between(std::string_view page, std::string_view begin, std::string_view end) {
    std::string sources;
    for (std::size_t from = page.find(begin); from != page.npos; from = page.find(begin, from)) {
        from += begin.size();
        std::size_t const until = page.find(end, from);
        if (until == page.npos) break;
        sources += source_of(page.substr(from, until - from));
    }
    return sources.empty() ? " 'none'" : sources;
}

}  // namespace

std::string page_policy(std::string_view page) {
    return "default-src 'none'; script-src" + sources_between(page, "<script>", "</script>") + "; style-src" +
           sources_between(page, "<style>", "</style>") +
           "; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

}  // namespace triton::net
