// Whatever an HTTP server or a token service answers: no crash, nothing that becomes a second line of our next request,
// no way from https to http, and no range that contradicts itself.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "host/download/authorization.h"
#include "host/download/exchange.h"

namespace {

using namespace triton;
using namespace triton::download;

void require(bool holds) {
    if (!holds) std::abort();
}

bool fits_in_a_line(std::string_view text) {
    return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

void check_url(Url const& url) {
    require(fits_in_a_line(url.text) && fits_in_a_line(url.authority) && !url.authority.empty());
    require(url.text.find(' ') == std::string::npos && url.authority.find('@') == std::string::npos);
    auto const again = parse_url(url.text);
    require(again && again->authority == url.authority && again->is_https == url.is_https);
}

void check_head(Head const& head) {
    if (!head.range) return;
    require(head.range->first <= head.range->last);
    require(!head.range->size || head.range->last < *head.range->size);
}

void check_redirect(Url const& base, std::string_view location) {
    auto const next = follow(base, location);
    if (!next) return;
    check_url(*next);
    require(!base.is_https || next->is_https);
}

/// The challenges are answered, and the token that then comes goes into a header.
void check_authorization(Url const& base, Head const& head, std::string_view body) {
    role::HostCredential const credential{.host = "registry.example", .user = "user", .password = "secret"};
    TimePoint const now{};
    for (role::HostCredential const* const who : {static_cast<role::HostCredential const*>(nullptr), &credential}) {
        Authorizations known;
        auto const wanted = known.on_refused(base, head.challenges, "repository:a:pull", who);
        if (wanted && *wanted) {
            check_url((*wanted)->url);
            require(fits_in_a_line((*wanted)->authorization));
            require(!base.is_https || (*wanted)->url.is_https);
            auto const token = parse_token(body);
            if (!token) continue;
            require(token->lives_for >= milliseconds::zero());
            known.remember(base, "repository:a:pull", who, *token, now);
        }
        require(fits_in_a_line(known.known_for(base, "repository:a:pull", who, now)));
    }
}

/// The first byte chooses the URL that was asked; lines of the header follow, an empty line, and a body.
int run(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    auto const base = parse_url(data[0] % 2 ? "https://registry.example/v2/a" : "http://127.0.0.1:5000/v2/a");
    std::string_view rest(reinterpret_cast<char const*>(data) + 1, size - 1);
    Head head;
    while (!rest.empty()) {
        std::size_t const end = std::min(rest.find('\n'), rest.size());
        std::string_view const line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (line.empty()) break;
        take_header(head, line);
    }
    check_head(head);
    check_redirect(*base, head.location);
    check_authorization(*base, head, rest);
    return 0;
}

}  // namespace

extern "C" int answer_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return answer_fuzz(data, size); }
#endif
