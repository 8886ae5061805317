#include "host/download/transfer.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "lib/base/http_field.h"

namespace triton::download {

namespace {

constexpr unsigned most_redirects = 10;
constexpr std::uint64_t most_ignored_bytes = 64 * 1024;
constexpr std::size_t most_token_bytes = 256 * 1024;
constexpr std::size_t most_reason_bytes = 512;
constexpr std::size_t most_passed_over = 16;
constexpr std::size_t most_unreachable = 64;
constexpr milliseconds unreachable_for = std::chrono::minutes(1);

struct CodeRow {
    CURLcode code;
    ErrorKind kind;
    bool is_transient;
};
/// Errors of a connection. All others are `corrupt` and not transient.
constexpr std::array<CodeRow, 14> code_rows{{
    {CURLE_COULDNT_RESOLVE_HOST, ErrorKind::unavailable, true},
    {CURLE_COULDNT_RESOLVE_PROXY, ErrorKind::unavailable, true},
    {CURLE_COULDNT_CONNECT, ErrorKind::unavailable, true},
    {CURLE_OPERATION_TIMEDOUT, ErrorKind::timeout, true},
    {CURLE_PARTIAL_FILE, ErrorKind::unavailable, true},
    {CURLE_RECV_ERROR, ErrorKind::unavailable, true},
    {CURLE_SEND_ERROR, ErrorKind::unavailable, true},
    {CURLE_GOT_NOTHING, ErrorKind::unavailable, true},
    {CURLE_SSL_CONNECT_ERROR, ErrorKind::unavailable, true},
    {CURLE_OUT_OF_MEMORY, ErrorKind::unavailable, true},
    {CURLE_PEER_FAILED_VERIFICATION, ErrorKind::denied, false},
    {CURLE_SSL_CACERT_BADFILE, ErrorKind::invalid, false},
    {CURLE_UNSUPPORTED_PROTOCOL, ErrorKind::invalid, false},
    {CURLE_PROXY, ErrorKind::unavailable, true},
}};

struct StatusRow {
    std::uint32_t status;
    ErrorKind kind;
    bool is_transient;
};
constexpr std::array<StatusRow, 8> status_rows{{
    {401, ErrorKind::denied, false},
    {403, ErrorKind::denied, false},
    {404, ErrorKind::not_found, false},
    {407, ErrorKind::denied, false},
    {408, ErrorKind::timeout, true},
    {410, ErrorKind::not_found, false},
    {425, ErrorKind::unavailable, true},
    {429, ErrorKind::busy, true},
}};

/// Whether an exchange over https ended so because nobody speaks TLS there. A certificate that is not good is none of
/// these: there is TLS.
bool has_met_no_tls(Ended const& ended) {
    if (ended.was_asked) return false;
    if (ended.proxy_status >= 500) return true;  // a proxy has found nobody there
    return ended.code == CURLE_COULDNT_CONNECT || ended.code == CURLE_SSL_CONNECT_ERROR ||
           ended.code == CURLE_OPERATION_TIMEDOUT;
}

/// The URL at which a registry's client begins: "https://host/v2/" for "https://host/v2/library/alpine/blobs/x", of
/// which the scope is "repository:library/alpine:pull". None: it is no URL of a registry.
std::optional<Url> registry_base(Url const& url, std::string_view scope) {
    constexpr std::string_view before = "repository:";
    if (!scope.starts_with(before)) return std::nullopt;
    scope.remove_prefix(before.size());
    std::string const place = "/v2/" + std::string(scope.substr(0, scope.rfind(':'))) + "/";
    std::size_t const at = url.text.rfind(place);
    if (at == std::string::npos) return std::nullopt;
    auto base = parse_url(url.text.substr(0, at + 4));
    return base ? std::optional(*std::move(base)) : std::nullopt;
}

bool is_redirect(std::uint32_t status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_below(std::string_view url, std::string_view base) {
    return url.starts_with(base) && url.substr(base.size()).starts_with('/');
}

std::string_view name_of_host(std::string_view authority) { return authority.substr(0, authority.rfind(':')); }

/// Whether headers have one of that name.
bool has_header(std::span<std::string const> headers, std::string_view name) {
    return std::ranges::any_of(
        headers, [name](std::string_view one) { return are_same_letters(one.substr(0, one.find(':')), name); });
}

/// One port may speak TLS or not.
std::string server_key(Url const& url) { return (url.is_https ? "https " : "http ") + url.authority; }

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

Transfer::Transfer(Surroundings& surroundings, Order order)
    : surroundings_(surroundings), order_(std::move(order)), sink_(std::move(order_.pipe)) {}

void Transfer::start() { begin_url(); }

/// A mirror that is down would otherwise cost each layer of an image a time-out.
void Transfer::leave_out_unreachable() {
    if (order_.credentials.servers.empty()) return;
    auto const now = std::chrono::steady_clock::now();
    auto const is_left_out = [&](std::string const& text) {
        auto const url = parse_url(text);
        auto const found = url ? surroundings_.unreachable.find(server_key(*url)) : surroundings_.unreachable.end();
        return found != surroundings_.unreachable.end() && found->second > now;
    };
    std::span<std::string const> const left = std::span(order_.request.urls).subspan(url_index_);
    auto const next = std::ranges::find_if_not(left, is_left_out);
    if (next != left.end()) url_index_ += static_cast<std::size_t>(next - left.begin());
}

void Transfer::begin_url() {
    leave_out_unreachable();
    redirects_ = 0;
    has_heard_ = false;
    refused_by_.clear();
    hidden_.reset();
    auto url = parse_url(order_.request.urls[url_index_]);
    first_authority_ = url ? url->authority : "";
    if (!url) return fail_url({.kind = url.error().kind, .reason = url.error().text()});
    url_ = *std::move(url);
    auto const& servers = order_.credentials.servers;
    auto const found = std::ranges::find_if(
        servers, [this](role::ServerSettings const& one) { return is_below(url_.text, one.base); });
    server_ = found == servers.end() ? nullptr : &*found;
    ask();
}

role::HostCredential const* Transfer::credential() const {
    // A server that redirects to a host must not make us show that host its credentials.
    return url_.authority == first_authority_ ? credential_for(order_.credentials, url_) : nullptr;
}

bool Transfer::asks_for_range() const { return order_.request.length || order_.request.offset > 0; }

std::string Transfer::range_text() const {
    if (!asks_for_range()) return "";
    std::uint64_t const first = order_.request.offset;
    std::string text = std::to_string(first) + "-";
    if (order_.request.length) text += std::to_string(first + *order_.request.length - 1);
    return text;
}

Ask Transfer::base_ask(Url url) const {
    role::Download const& request = order_.request;
    role::Proxies const& proxies = order_.credentials.proxies;
    role::Proxy const& proxy = url.is_https ? proxies.https : proxies.http;
    Ask ask{.url = std::move(url),
            .proxy = proxy,
            .no_proxy = proxies.no_proxy,
            .authorities = order_.authorities.empty() ? surroundings_.authorities : order_.authorities,
            .bytes_per_second = request.bytes_per_second,
            .stall = milliseconds(std::clamp<std::uint64_t>(request.stall_milliseconds, 1000, 86'400'000))};
    if (server_) add_server_settings(ask);
    return ask;
}

/// A redirect must not make us show another host what is for this one; but the authorities that vouch for a server
/// often vouch for its token service and its storage, too.
void Transfer::add_server_settings(Ask& ask) const {
    if (!server_->authorities.empty()) ask.authorities += "\n" + server_->authorities;
    ask.is_unverified = server_->is_unverified && name_of_host(ask.url.authority) == name_of_host(first_authority_);
    if (ask.url.authority != first_authority_) return;
    ask.certificate = server_->certificate;
    ask.key = server_->key;
    ask.connect = milliseconds(std::min<std::uint64_t>(server_->connect_milliseconds, 86'400'000));
    ask.headers = server_->headers;
}

void Transfer::begin(Ask ask) {
    head_ = {};
    ignored_ = 0;
    stopped_.reset();
    auto exchange = Exchange::start(surroundings_.multi, std::move(ask), *this);
    if (!exchange) return fail_url({.kind = exchange.error().kind, .reason = exchange.error().text()});
    exchange_ = *std::move(exchange);
}

void Transfer::ask() {
    stage_ = Stage::content;
    Ask ask = base_ask(url_);
    ask.range = range_text();
    ask.headers.emplace_back("Accept-Encoding: identity");
    for (std::string const& type : order_.request.accept)
        ask.headers.push_back("Accept: " + type);
    if (!order_.request.if_range.empty() && url_index_ == 0 && asks_for_range())
        ask.headers.push_back("If-Range: " + order_.request.if_range);
    is_authorized_ = has_header(ask.headers, "Authorization");
    if (url_.authority == first_authority_ && !is_authorized_) {
        std::string const known = surroundings_.authorizations.known_for(url_, order_.request.scope, credential(),
                                                                         std::chrono::steady_clock::now());
        if (!known.empty()) ask.headers.push_back("Authorization: " + known);
        is_authorized_ = !known.empty();
    }
    begin(std::move(ask));
}

void Transfer::ask_token(TokenRequest request) {
    stage_ = Stage::token;
    token_body_.clear();
    token_request_ = std::move(request);
    Ask ask = base_ask(token_request_.url);
    ask.headers.emplace_back("Accept: application/json");
    std::erase_if(ask.headers, [](std::string const& one) { return has_header({&one, 1}, "Authorization"); });
    if (!token_request_.authorization.empty()) ask.headers.push_back("Authorization: " + token_request_.authorization);
    ask.form = token_request_.form;
    begin(std::move(ask));
}

/// Whether a registry may have what was asked for, and say so only to those whom it knows. It then wants credentials
/// where all clients begin: at "/v2/".
bool Transfer::may_be_hidden() const {
    bool const is_refused =
        head_.status == 403 || head_.status == 404 || (head_.status == 401 && head_.challenges.empty());
    return is_refused && !order_.request.scope.empty() && !is_authorized_ && !hidden_ && refused_by_.empty() &&
           url_.authority == first_authority_ && registry_base(url_, order_.request.scope);
}

void Transfer::ask_for_challenge(Failure failure) {
    hidden_ = std::move(failure);
    stage_ = Stage::challenge;
    begin(base_ask(*registry_base(url_, order_.request.scope)));
}

void Transfer::finish_challenge(Ended const& ended) {
    bool const is_wanted = ended.code == CURLE_OK && head_.status == 401 && !head_.challenges.empty();
    if (!is_wanted) return fail_url(*hidden_);
    on_unauthorized();
}

bool Transfer::stop(Failure failure) {
    stopped_ = std::move(failure);
    return false;
}

bool Transfer::has_changed(Head const& head) const {
    return url_index_ == 0 && !order_.request.if_range.empty() && !head.entity_tag.empty() &&
           head.entity_tag != order_.request.if_range;
}

bool Transfer::on_head(Head const& head) {
    head_ = head;
    has_heard_ = true;
    if (stage_ == Stage::token || stage_ == Stage::challenge) return true;
    if (head.status == 200) return accept_whole(head);
    if (head.status == 206) return accept_range(head);
    return true;
}

bool Transfer::accept_whole(Head const& head) {
    role::Download const& request = order_.request;
    role::Answer answer{.status = 200, .length = head.content_length, .size = head.content_length};
    if (head.content_length && *head.content_length > request.maximum + request.offset) {
        return stop({.kind = ErrorKind::corrupt,
                     .reason = "the server has " + bytes_text(*head.content_length) + ", and at most " +
                               bytes_text(request.maximum + request.offset) + " may come",
                     .status = 200});
    }
    if (!asks_for_range()) return accept(0, head.content_length, std::move(answer));
    if (has_changed(head))
        return stop({.kind = ErrorKind::corrupt, .reason = "the file has changed on the server", .status = 200});
    if (!request.whole_length) {
        return stop({.kind = ErrorKind::unsupported,
                     .reason = "the server gives all of the file instead of a range",
                     .status = 200});
    }
    return accept(request.offset, request.whole_length, std::move(answer));
}

bool Transfer::accept_range(Head const& head) {
    role::Download const& request = order_.request;
    if (has_changed(head))
        return stop({.kind = ErrorKind::corrupt, .reason = "the file has changed on the server", .status = 206});
    bool const fits = asks_for_range() && head.range && head.range->first == request.offset &&
                      (!request.length || head.range->last < request.offset + *request.length);
    if (!fits) {
        return stop(
            {.kind = ErrorKind::corrupt, .reason = "the server gives another range than was asked for", .status = 206});
    }
    std::uint64_t const count = head.range->last - head.range->first + 1;
    bool const is_cut =
        request.length && count < *request.length && !(head.range->size && head.range->last + 1 == *head.range->size);
    if (is_cut || (head.content_length && *head.content_length != count)) {
        return stop(
            {.kind = ErrorKind::corrupt, .reason = "the server's range and its length do not agree", .status = 206});
    }
    return accept(0, count, {.status = 206, .length = count, .offset = head.range->first, .size = head.range->size});
}

bool Transfer::accept(std::uint64_t skip, std::optional<std::uint64_t> budget, role::Answer answer) {
    skip_ = skip;
    budget_ = budget;
    room_ = order_.request.maximum;
    has_answered_ = true;
    answer.id = id();
    answer.etag = head_.entity_tag;
    answer.media_type = head_.media_type.substr(0, most_reason_bytes);
    answer.final_host = url_.authority;
    answer.digest = head_.digest.substr(0, most_reason_bytes);
    answer.passed_over = std::exchange(passed_over_, {});
    events_.emplace_back(std::move(answer));
    return true;
}

Listener::Taken Transfer::on_body(std::string_view bytes) {
    if (stage_ == Stage::token) {
        token_body_ += bytes;
        return token_body_.size() <= most_token_bytes ? Taken::all : Taken::stop;
    }
    if (stage_ == Stage::challenge || (head_.status != 200 && head_.status != 206)) {
        // A short body is read to its end, so that the connection can be used again.
        ignored_ += bytes.size();
        return ignored_ <= most_ignored_bytes ? Taken::all : Taken::stop;
    }
    std::uint64_t const skipped = std::min<std::uint64_t>(skip_, bytes.size());
    std::string_view wanted = bytes.substr(skipped);
    if (budget_) wanted = wanted.substr(0, std::min<std::uint64_t>(*budget_, wanted.size()));
    if (wanted.size() > room_) {
        stop({.kind = ErrorKind::corrupt,
              .reason = "more than " + bytes_text(order_.request.maximum) + " come",
              .status = head_.status});
        return Taken::stop;
    }
    if (!wanted.empty() && !sink_.take(wanted)) {
        if (!sink_.is_broken()) return Taken::none_now;
        stop({.kind = ErrorKind::refused, .reason = "nobody reads the pipe"});
        return Taken::stop;
    }
    skip_ -= skipped;
    room_ -= wanted.size();
    taken_ += wanted.size();
    if (budget_) *budget_ -= wanted.size();
    // Bytes after the wanted ones end the exchange.
    return budget_ == 0U && skipped + wanted.size() < bytes.size() ? Taken::stop : Taken::all;
}

void Transfer::on_ended(CURLcode code) {
    Ended const ended = exchange_->ended(code);
    exchange_.reset();
    switch (stage_) {
        case Stage::token: return finish_token(ended);
        case Stage::challenge: return finish_challenge(ended);
        case Stage::content:
        case Stage::delivering: return finish_content(ended);
    }
    std::unreachable();
}

void Transfer::finish_token(Ended const& ended) {
    std::string const service = "the token service of " + url_.authority;
    if (token_body_.size() > most_token_bytes) {
        return fail_url({.kind = ErrorKind::corrupt,
                         .reason = service + " gives more than " + bytes_text(most_token_bytes),
                         .status = head_.status});
    }
    if (ended.code != CURLE_OK) {
        Failure failure = failure_of_connection(ended);
        failure.reason = service + " does not answer: " + failure.reason;
        return fail_url(std::move(failure));
    }
    if (is_redirect(head_.status) && !head_.location.empty()) return on_token_redirect(service);
    if (head_.status != 200) {
        auto const row = std::ranges::find(status_rows, head_.status, &StatusRow::status);
        bool const is_known = row != status_rows.end();
        // That the service is not found does not mean that the content is not there.
        bool const is_about_service = is_known && row->kind != ErrorKind::not_found;
        return fail_url({.kind = is_about_service ? row->kind : ErrorKind::unavailable,
                         .reason = service + " answers " + std::to_string(head_.status),
                         .is_transient = is_known ? row->is_transient : head_.status >= 500,
                         .status = head_.status,
                         .retry_after = ended.retry_after});
    }
    auto const token = parse_token(token_body_);
    if (!token) return fail_url({.kind = token.error().kind, .reason = token.error().text()});
    surroundings_.authorizations.remember(url_, order_.request.scope, credential(), *token,
                                          std::chrono::steady_clock::now());
    ask();
}

void Transfer::on_token_redirect(std::string const& service) {
    if (++redirects_ > most_redirects) {
        return fail_url({.kind = ErrorKind::corrupt,
                         .reason = service + " redirects more than " + std::to_string(most_redirects) + " times"});
    }
    auto next = follow(token_request_.url, head_.location);
    if (!next) return fail_url({.kind = ErrorKind::corrupt, .reason = next.error().text(), .status = head_.status});
    TokenRequest request{.url = *std::move(next), .authorization = {}};
    // The registry names the service that sees the credentials; that service does not name another one.
    if (request.url.authority == token_request_.url.authority) {
        request.authorization = token_request_.authorization;
        request.form = token_request_.form;
    }
    ask_token(std::move(request));
}

void Transfer::finish_content(Ended const& ended) {
    if (stopped_) return fail_url(*std::exchange(stopped_, std::nullopt));
    bool const has_content = head_.status == 200 || head_.status == 206;
    if (has_content && (ended.code == CURLE_OK || budget_ == 0U)) {
        if (!budget_ || *budget_ == 0) {
            stage_ = Stage::delivering;
            return;
        }
        return fail_url({.kind = ErrorKind::unavailable,
                         .reason = url_.authority + " has ended the transfer early",
                         .is_transient = true,
                         .status = head_.status});
    }
    if (is_redirect(head_.status) && !head_.location.empty()) return on_redirect();
    if (may_be_hidden()) return ask_for_challenge(failure_of_status(ended));
    if (head_.status == 401) return on_unauthorized();
    if (!has_content && head_.status >= 200) return fail_url(failure_of_status(ended));
    Failure failure = failure_of_connection(ended);
    failure.reason = url_.authority + ": " + failure.reason;
    failure.lacks_https = !has_heard_ && has_met_no_tls(ended);
    failure.is_unreachable = !has_heard_ && !ended.was_asked && failure.is_transient;
    fail_url(std::move(failure));
}

/// Of an answer that brings no content.
Transfer::Failure Transfer::failure_of_status(Ended const& ended) const {
    auto const row = std::ranges::find(status_rows, head_.status, &StatusRow::status);
    bool const is_known = row != status_rows.end();
    return {.kind = is_known              ? row->kind
                    : head_.status >= 500 ? ErrorKind::unavailable
                                          : ErrorKind::invalid,
            .reason = url_.shown() + " answers " + std::to_string(head_.status),
            .is_transient = is_known ? row->is_transient : head_.status >= 500,
            .status = head_.status,
            .retry_after = ended.retry_after};
}

/// Of a connection that was not made, or was lost.
Transfer::Failure Transfer::failure_of_connection(Ended const& ended) const {
    if (ended.proxy_status != 0) {
        auto const row = std::ranges::find(status_rows, ended.proxy_status, &StatusRow::status);
        bool const is_known = row != status_rows.end();
        // It has not found the server, which is not what was asked for.
        return {.kind = is_known && row->kind != ErrorKind::not_found ? row->kind : ErrorKind::unavailable,
                .reason = "the proxy answers " + std::to_string(ended.proxy_status),
                .is_transient = is_known ? row->is_transient : ended.proxy_status >= 500};
    }
    auto const row = std::ranges::find(code_rows, ended.code, &CodeRow::code);
    bool const is_known = row != code_rows.end();
    return {.kind = is_known ? row->kind : ErrorKind::corrupt,
            .reason = ended.reason,
            .is_transient = is_known && row->is_transient,
            .status = head_.status};
}

void Transfer::on_redirect() {
    if (++redirects_ > most_redirects) {
        return fail_url(
            {.kind = ErrorKind::corrupt,
             .reason = order_.request.urls[url_index_].substr(0, order_.request.urls[url_index_].find('?')) +
                       " redirects more than " + std::to_string(most_redirects) + " times"});
    }
    auto next = follow(url_, head_.location);
    if (!next) return fail_url({.kind = ErrorKind::corrupt, .reason = next.error().text(), .status = head_.status});
    url_ = *std::move(next);
    ask();
}

void Transfer::on_unauthorized() {
    bool const is_ours = url_.authority == first_authority_;
    if (!is_ours || refused_by_ == url_.authority) {
        // Registries answer 401 also for what they do not have, to those whom they do not know.
        std::string const reason = !is_ours       ? ", where a redirect leads, wants credentials"
                                   : credential() ? " refuses the credentials"
                                                  : " wants credentials for it, or does not have it";
        return fail_url({.kind = ErrorKind::denied, .reason = url_.authority + reason, .status = 401});
    }
    if (server_ && has_header(server_->headers, "Authorization")) {
        return fail_url({.kind = ErrorKind::denied,
                         .reason = url_.authority + " refuses the Authorization that is configured for it",
                         .status = 401});
    }
    refused_by_ = url_.authority;
    auto request = surroundings_.authorizations.on_refused(url_, head_.challenges, order_.request.scope, credential());
    if (!request && hidden_) {
        // It may not be there at all.
        Failure failure = *hidden_;
        failure.reason += "; " + request.error().text();
        return fail_url(std::move(failure));
    }
    if (!request) return fail_url({.kind = request.error().kind, .reason = request.error().text(), .status = 401});
    if (*request) return ask_token(**std::move(request));
    ask();
}

void Transfer::fail_url(Failure failure) {
    // A transient failure of one URL counts more than a permanent one of another: trying again makes sense. What goes
    // wrong in an answer counts most: there it was. What a server says over http counts more than that it has no https.
    bool const is_instead = has_heard_ && url_index_ > 0 &&
                            role::is_plain_form(order_.request.urls[url_index_ - 1], order_.request.urls[url_index_]);
    bool const lacks_https = failure.lacks_https;
    if (failure.is_unreachable && url_.authority == first_authority_) {
        if (surroundings_.unreachable.size() >= most_unreachable) surroundings_.unreachable.clear();
        surroundings_.unreachable[server_key(url_)] = std::chrono::steady_clock::now() + unreachable_for;
    }
    if (!has_answered_ && passed_over_.size() < most_passed_over)
        passed_over_.push_back({first_authority_, failure.reason.substr(0, most_reason_bytes)});
    if (!failure_ || has_answered_ || is_instead || (failure.is_transient && !failure_->is_transient))
        failure_ = std::move(failure);
    if (!has_answered_ && !sink_.is_broken() && next_url(lacks_https)) return begin_url();
    is_failing_ = true;
    stage_ = Stage::delivering;
}

bool Transfer::next_url(bool lacks_https) {
    auto const& urls = order_.request.urls;
    std::size_t const failed = url_index_++;
    if (url_index_ < urls.size() && role::is_plain_form(urls[failed], urls[url_index_]) && !lacks_https) ++url_index_;
    return url_index_ < urls.size();
}

void Transfer::cancel() {
    exchange_.reset();
    failure_ = {.kind = ErrorKind::refused, .reason = "cancelled"};
    tell_failure();
}

void Transfer::tell_failure() {
    // Where servers are configured one by one, it is shown what each of them has said.
    std::string reason = failure_->reason.substr(0, most_reason_bytes);
    for (role::PassedOver const& other : passed_over_) {
        if (order_.credentials.servers.empty() || other.reason == failure_->reason) continue;
        reason += "; " + other.reason;
    }
    std::optional<std::uint64_t> retry_after;
    if (failure_->retry_after) retry_after = static_cast<std::uint64_t>(failure_->retry_after->count());
    events_.emplace_back(role::DownloadFailed{.id = id(),
                                              .kind = failure_->kind,
                                              .reason = std::move(reason),
                                              .is_transient = failure_->is_transient,
                                              .status = failure_->status,
                                              .retry_after_milliseconds = retry_after});
    is_over_ = true;
}

void Transfer::pump() {
    sink_.flush();
    if (exchange_) {
        if (sink_.has_room() || sink_.is_broken()) exchange_->resume();
        return;
    }
    if (is_over_ || stage_ != Stage::delivering || (!sink_.is_empty() && !sink_.is_broken())) return;
    if (is_failing_) return tell_failure();
    events_.emplace_back(role::Downloaded{.id = id(), .bytes = sink_.written()});
    is_over_ = true;
}

}  // namespace triton::download
