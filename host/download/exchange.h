#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

#include "host/download/url.h"
#include "host/role/download_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::download {

/// Content-Range. Source: RFC 9110, section 14.4.
struct ContentRange {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::optional<std::uint64_t> size = {};

    bool operator==(ContentRange const&) const = default;
};

/// Reads "bytes 0-99/100" or "bytes 0-99/*"; nothing for any other text.
std::optional<ContentRange> parse_content_range(std::string_view text);

/// A server's answer, without the body.
struct Head {
    std::uint32_t status = 0;
    std::optional<std::uint64_t> content_length = {};
    std::optional<ContentRange> range = {};
    std::string entity_tag = {};
    std::string media_type = {};
    std::string location = {};
    std::string digest = {};
    std::vector<std::string> challenges = {};
};

/// Adds one line of a header to a Head. `line` has no line end. A malformed one counts as absent.
void take_header(Head& head, std::string_view line);

struct Ask {
    Url url;
    std::vector<std::string> headers = {};
    std::string range = {};        ///< "0-99"; empty: none
    std::string form = {};         ///< of a POST; empty: it is a GET
    role::Proxy proxy = {};        ///< without a URL: none, even if the environment names one
    std::string no_proxy = {};     ///< hosts that are asked directly
    std::string authorities = {};  ///< in PEM
    std::string certificate = {};  ///< of the client, in PEM; empty: none
    std::string key = {};
    bool is_unverified = false;  ///< the certificate of the server may be any
    milliseconds connect{};      ///< how long the connection may take; zero: as long as a stall
    std::uint64_t bytes_per_second = 0;
    milliseconds stall{};
};

/// Receives an answer.
class Listener {
public:
    virtual ~Listener() = default;
    /// Called once, before the body. Returns false to end the exchange.
    virtual bool on_head(Head const& head) = 0;
    enum class Taken : std::uint8_t { all, none_now, stop };
    /// With `none_now` the same bytes come again after Exchange::resume().
    virtual Taken on_body(std::string_view bytes) = 0;
};

/// How an exchange has ended. A listener that has ended it knows why.
struct Ended {
    CURLcode code = CURLE_OK;
    std::string reason = {};  ///< "Connection refused"
    std::optional<milliseconds> retry_after = {};
    bool was_asked = false;          ///< whether a connection was there, and the request was sent
    std::uint32_t proxy_status = 0;  ///< the proxy's own answer, if it is why nothing else came
};

/// One request and its answer, among others of one CURLM. Redirects and authentication are left to the caller.
class Exchange {
public:
    /// `multi` and `listener` must outlive this. Errors: `unavailable` when out of memory.
    static Result<std::unique_ptr<Exchange>> start(CURLM* multi, Ask ask, Listener& listener);
    Exchange(Exchange const&) = delete;
    Exchange& operator=(Exchange const&) = delete;
    ~Exchange();

    [[nodiscard]] CURL* handle() const { return easy_; }
    void resume();
    [[nodiscard]] Ended ended(CURLcode code) const;

private:
    Exchange(CURLM* multi, CURL* easy, Ask ask, Listener& listener)
        : multi_(multi), easy_(easy), ask_(std::move(ask)), listener_(listener) {}
    [[nodiscard]] bool configure();
    static std::size_t header_callback(char* bytes, std::size_t size, std::size_t count, void* self);
    static std::size_t body_callback(char* bytes, std::size_t size, std::size_t count, void* self);
    bool take_line(std::string_view line);

    CURLM* multi_;
    CURL* easy_;
    curl_slist* headers_ = nullptr;
    Ask ask_;
    Listener& listener_;
    Head head_;
    std::size_t header_bytes_ = 0;
    bool is_past_head_ = false;
    bool has_too_many_headers_ = false;
    bool is_paused_ = false;
    char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace triton::download
