#include "host/download/exchange.h"

#include <algorithm>
#include <charconv>

#include "lib/base/http_field.h"

namespace triton::download {

namespace {

constexpr std::size_t most_header_bytes = 64 * 1024;  // the server controls how much it sends
constexpr std::size_t most_challenges = 8;
constexpr std::size_t most_tag_bytes = 256;
constexpr long buffer_bytes = 512 * 1024;
/// A server that sends fewer bytes a second than this, for as long as a stall lasts, counts as silent.
constexpr std::uint64_t slowest = 100;

std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > INT64_MAX) return std::nullopt;
    return value;
}

std::string_view field_value(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r' || text.back() == '\n'))
        text.remove_suffix(1);
    return text;
}

/// A tag that we can send back: strong, printable, and short enough for a message to the library.
bool is_entity_tag(std::string_view value) {
    return value.starts_with('"') && value.size() <= most_tag_bytes &&
           std::ranges::all_of(value, [](char c) { return c > ' ' && c < 0x7f; });
}

struct HeaderRow {
    std::string_view name;
    void (*take)(Head& head, std::string_view value);
};

/// The headers that matter. Source: RFC 9110; distribution-spec for Docker-Content-Digest.
constexpr HeaderRow header_rows[] = {
    {"Content-Length", [](Head& head, std::string_view value) { head.content_length = parse_number(value); }},
    {"Content-Range", [](Head& head, std::string_view value) { head.range = parse_content_range(value); }},
    {"ETag", [](Head& head, std::string_view value) { head.entity_tag = is_entity_tag(value) ? value : ""; }},
    {"Content-Type",
     [](Head& head, std::string_view value) { head.media_type = field_value(value.substr(0, value.find(';'))); }},
    {"Location", [](Head& head, std::string_view value) { head.location = value; }},
    {"Docker-Content-Digest", [](Head& head, std::string_view value) { head.digest = value; }},
    {"WWW-Authenticate",
     [](Head& head, std::string_view value) {
         if (head.challenges.size() < most_challenges) head.challenges.emplace_back(value);
     }},
};

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
    constexpr std::string_view unit = "bytes ";
    if (!text.starts_with(unit)) return std::nullopt;
    text.remove_prefix(unit.size());
    std::size_t const dash = text.find('-');
    std::size_t const slash = text.find('/');
    if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
    auto const first = parse_number(text.substr(0, dash));
    auto const last = parse_number(text.substr(dash + 1, slash - dash - 1));
    auto const size = parse_number(text.substr(slash + 1));
    if (!first || !last || *first > *last) return std::nullopt;
    if (!size && text.substr(slash + 1) != "*") return std::nullopt;
    if (size && *last >= *size) return std::nullopt;
    return ContentRange{*first, *last, size};
}

void take_header(Head& head, std::string_view line) {
    std::size_t const colon = line.find(':');
    if (colon == std::string_view::npos) return;
    for (HeaderRow const& row : header_rows)
        if (are_same_letters(row.name, line.substr(0, colon))) row.take(head, field_value(line.substr(colon + 1)));
}

Result<std::unique_ptr<Exchange>> Exchange::start(CURLM* multi, Ask ask, Listener& listener) {
    CURL* const easy = curl_easy_init();
    if (!easy) return fail(ErrorKind::unavailable, "out of memory");
    std::unique_ptr<Exchange> exchange(new Exchange(multi, easy, std::move(ask), listener));
    if (!exchange->configure() || curl_multi_add_handle(multi, easy) != CURLM_OK)
        return fail(ErrorKind::unavailable, "prepare a request for " + exchange->ask_.url.shown(), "out of memory");
    return exchange;
}

Exchange::~Exchange() {
    (void)curl_multi_remove_handle(multi_, easy_);  // fails only if it was never added
    curl_easy_cleanup(easy_);
    curl_slist_free_all(headers_);
}

bool Exchange::configure() {
    for (std::string const& header : ask_.headers)
        if (curl_slist* const more = curl_slist_append(headers_, header.c_str()))
            headers_ = more;
        else
            return false;
    bool ok = true;
    auto const set = [&](CURLoption option, auto value) {
        ok = ok && curl_easy_setopt(easy_, option, value) == CURLE_OK;
    };
    set(CURLOPT_URL, ask_.url.text.c_str());
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_USERAGENT, "triton-download");
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));  // ranges go side by side, not through one
    set(CURLOPT_HTTP_CONTENT_DECODING, 0L);  // a body is taken unchanged: a few bytes can never become many
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    set(CURLOPT_ERRORBUFFER, static_cast<char*>(error_));
    set(CURLOPT_HEADERFUNCTION, header_callback);
    set(CURLOPT_HEADERDATA, static_cast<void*>(this));
    set(CURLOPT_WRITEFUNCTION, body_callback);
    set(CURLOPT_WRITEDATA, static_cast<void*>(this));
    set(CURLOPT_PRIVATE, static_cast<void*>(this));
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>((ask_.connect.count() ? ask_.connect : ask_.stall).count()));
    std::uint64_t const limit = ask_.bytes_per_second;
    // libcurl looks at the rate after up to a hundred buffers: together they are a second's worth at most.
    set(CURLOPT_BUFFERSIZE, limit ? std::clamp(static_cast<long>(limit / 100), 1024L, buffer_bytes) : buffer_bytes);
    set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(ask_.stall.count() / 1000)));
    set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(limit ? std::min(slowest, limit / 2) : slowest));
    if (limit) set(CURLOPT_MAX_RECV_SPEED_LARGE, static_cast<curl_off_t>(limit));
    if (!ask_.range.empty()) set(CURLOPT_RANGE, ask_.range.c_str());
    if (!ask_.form.empty()) {
        set(CURLOPT_POSTFIELDSIZE, static_cast<long>(ask_.form.size()));
        set(CURLOPT_POSTFIELDS, ask_.form.c_str());
    }
    set(CURLOPT_PROXY, ask_.proxy.url.c_str());
    set(CURLOPT_NOPROXY, ask_.no_proxy.c_str());
    if (!ask_.proxy.user.empty()) {
        set(CURLOPT_PROXYUSERNAME, ask_.proxy.user.c_str());
        set(CURLOPT_PROXYPASSWORD, ask_.proxy.password.c_str());
    }
    curl_blob authorities{ask_.authorities.data(), ask_.authorities.size(), CURL_BLOB_NOCOPY};
    if (!ask_.authorities.empty()) set(CURLOPT_CAINFO_BLOB, &authorities);
    curl_blob certificate{ask_.certificate.data(), ask_.certificate.size(), CURL_BLOB_NOCOPY};
    curl_blob key{ask_.key.data(), ask_.key.size(), CURL_BLOB_NOCOPY};
    if (!ask_.certificate.empty()) set(CURLOPT_SSLCERT_BLOB, &certificate);
    if (!ask_.key.empty()) set(CURLOPT_SSLKEY_BLOB, &key);
    if (ask_.is_unverified) {
        set(CURLOPT_SSL_VERIFYPEER, 0L);
        set(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    return ok;
}

std::size_t Exchange::header_callback(char* bytes, std::size_t size, std::size_t count, void* self) {
    std::size_t const length = size * count;
    return static_cast<Exchange*>(self)->take_line({bytes, length}) ? length : 0;
}

bool Exchange::take_line(std::string_view line) {
    if (is_past_head_) return true;  // trailers come after the body
    header_bytes_ += line.size();
    if (header_bytes_ > most_header_bytes) {
        has_too_many_headers_ = true;
        return false;
    }
    line = field_value(line);
    if (line.starts_with("HTTP/")) {
        head_ = {};
        return true;
    }
    if (!line.empty()) {
        take_header(head_, line);
        return true;
    }
    long status = 0;
    (void)curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    head_.status = static_cast<std::uint32_t>(std::clamp(status, 0L, 999L));
    if (head_.status < 200) return true;  // an interim answer
    is_past_head_ = true;
    return listener_.on_head(head_);
}

std::size_t Exchange::body_callback(char* bytes, std::size_t size, std::size_t count, void* self) {
    auto* const exchange = static_cast<Exchange*>(self);
    switch (exchange->listener_.on_body({bytes, size * count})) {
        case Listener::Taken::all: return size * count;
        case Listener::Taken::none_now: exchange->is_paused_ = true; return CURL_WRITEFUNC_PAUSE;
        case Listener::Taken::stop: return CURL_WRITEFUNC_ERROR;
    }
    std::unreachable();
}

void Exchange::resume() {
    if (!std::exchange(is_paused_, false)) return;
    (void)curl_easy_pause(easy_, CURLPAUSE_CONT);  // if this goes wrong the transfer ends, and curl reports that
}

Ended Exchange::ended(CURLcode code) const {
    Ended ended{.code = code, .reason = error_[0] ? error_ : curl_easy_strerror(code)};
    if (has_too_many_headers_) {
        ended.code = CURLE_WEIRD_SERVER_REPLY;
        ended.reason = "the server sends more than " + std::to_string(most_header_bytes) + " bytes of headers";
    }
    curl_off_t seconds = 0;
    if (curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0)
        ended.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 1'000'000));
    long proxy_status = 0;
    bool const has_answer = curl_easy_getinfo(easy_, CURLINFO_HTTP_CONNECTCODE, &proxy_status) == CURLE_OK;
    if (code != CURLE_OK && has_answer && proxy_status >= 300)
        ended.proxy_status = static_cast<std::uint32_t>(std::clamp(proxy_status, 0L, 999L));
    curl_off_t before_request = 0;
    ended.was_asked =
        curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &before_request) == CURLE_OK && before_request > 0;
    return ended;
}

}  // namespace triton::download
