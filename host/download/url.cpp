#include "host/download/url.h"

#include <memory>

#include <curl/curl.h>

#include "lib/json/text.h"

namespace triton::download {

namespace {

constexpr std::size_t most_url_bytes = 8192;

struct FreeUrl {
    void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Handle = std::unique_ptr<CURLU, FreeUrl>;

/// Returns a part of a URL; empty when the URL does not have it.
std::string part_of(Handle const& handle, CURLUPart part, unsigned flags = 0) {
    char* text = nullptr;
    if (curl_url_get(handle.get(), part, &text, flags) != CURLUE_OK) return "";
    std::string copy = text;
    curl_free(text);
    return copy;
}

std::string without_query(std::string_view text) { return std::string(text.substr(0, text.find_first_of("?#"))); }

std::string in_lower_case(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
}

Result<Url> url_of(Handle const& handle, std::string_view text) {
    std::string const shown = json::shown(without_query(text));
    std::string const scheme = part_of(handle, CURLUPART_SCHEME);
    if (scheme != "http" && scheme != "https") return fail(shown + " is not a URL of http or https");
    if (!part_of(handle, CURLUPART_USER).empty() || !part_of(handle, CURLUPART_PASSWORD).empty())
        return fail("a URL for " + json::shown(part_of(handle, CURLUPART_HOST)) + " holds a user name or a password");
    (void)curl_url_set(handle.get(), CURLUPART_FRAGMENT, nullptr, 0);  // servers never see it
    return Url{.text = part_of(handle, CURLUPART_URL),
               .authority = in_lower_case(part_of(handle, CURLUPART_HOST)) + ":" +
                            part_of(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT),
               .is_https = scheme == "https"};
}

Result<Url> parse_from(Handle handle, std::string_view text) {
    if (!handle) return fail(ErrorKind::unavailable, "out of memory");
    if (text.size() > most_url_bytes || text.find('\0') != std::string_view::npos)
        return fail("a URL is too long, or holds a NUL byte");
    // Unknown schemes are accepted here, so that the message below can name them.
    CURLUcode const code =
        curl_url_set(handle.get(), CURLUPART_URL, std::string(text).c_str(), CURLU_NON_SUPPORT_SCHEME);
    if (code != CURLUE_OK) return fail(json::shown(without_query(text)) + " is not a URL: " + curl_url_strerror(code));
    return url_of(handle, text);
}

}  // namespace

std::string Url::shown() const { return without_query(text); }

Result<Url> parse_url(std::string_view text) { return parse_from(Handle(curl_url()), text); }

Result<Url> follow(Url const& base, std::string_view location) {
    Handle handle(curl_url());
    if (handle) (void)curl_url_set(handle.get(), CURLUPART_URL, base.text.c_str(), 0);  // it has been parsed before
    Url url = TRY(parse_from(std::move(handle), location));
    if (base.is_https && !url.is_https) return fail(ErrorKind::refused, base.shown() + " leads from https to http");
    return url;
}

std::string authority_of(std::string_view host, bool is_https) {
    auto const url = parse_url(std::string(is_https ? "https://" : "http://").append(host));
    return url ? url->authority : "";
}

std::string with_parameter(std::string const& url, std::string_view name, std::string_view value) {
    Handle const handle(curl_url());
    std::string const parameter = std::string(name).append("=").append(value);
    if (!handle || curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
        curl_url_set(handle.get(), CURLUPART_QUERY, parameter.c_str(), CURLU_APPENDQUERY | CURLU_URLENCODE) !=
            CURLUE_OK)
        return url;
    return part_of(handle, CURLUPART_URL);
}

}  // namespace triton::download
