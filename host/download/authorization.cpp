#include "host/download/authorization.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "lib/base/loopback.h"
#include "lib/json/values.h"
#include "lib/text/percent.h"

namespace triton::download {

namespace {

constexpr std::size_t most_known = 256;
/// Also of a token that would live shorter: some services say 0. One that is refused is replaced in any case.
/// Source: distribution, docs/spec/auth/token.md, "expires_in"
constexpr std::int64_t shortest_life_seconds = 60;
constexpr std::int64_t longest_life_seconds = 86'400;

struct TokenAnswer {
    std::string token;
    std::string access_token;
    std::int64_t expires_in = shortest_life_seconds;
};

using Seconds = json::Integer<std::int64_t, INT64_MIN, INT64_MAX>;

std::span<json::Field<TokenAnswer> const> table(json::TableOf<TokenAnswer>) {
    static constexpr std::array<json::Field<TokenAnswer>, 3> rows{{
        {.name = "token", .value = json::as<&TokenAnswer::token, json::Text>},
        {.name = "access_token", .value = json::as<&TokenAnswer::access_token, json::Text>},
        {.name = "expires_in", .value = json::as<&TokenAnswer::expires_in, Seconds>},
    }};
    return rows;
}

/// Errors: `denied` for a token service that would get the password in plain text, unless it is on the machine that the
/// user has allowed plain HTTP for, or on this one.
Result<> check_confidential(Url const& url, Url const& service) {
    auto const host = [](Url const& one) { return one.authority.substr(0, one.authority.rfind(':')); };
    if (service.is_https || host(service) == host(url) || is_loopback_host(service.authority)) return {};
    return fail(ErrorKind::denied, url.authority + " names the token service " + service.shown() +
                                       ", which would get the password in plain text");
}

/// Whether a token may go into a header: it must not contain what would end the line.
bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::string basic_authorization(std::string_view user, std::string_view password) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string const plain = std::string(user).append(":").append(password);
    std::string text = "Basic ";
    for (std::size_t at = 0; at < plain.size(); at += 3) {
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < 3; ++i)
            bits = bits << 8 | (at + i < plain.size() ? static_cast<unsigned char>(plain[at + i]) : 0U);
        for (std::size_t i = 0; i < 4; ++i)
            text += at + i > plain.size() ? '=' : digits[bits >> (18 - 6 * i) & 63];
    }
    return text;
}

Result<Token> parse_token(std::string_view json) {
    json::Reading reading(1);
    auto const node = json::read_json(json, {.depth = 16, .values = 1000}, reading.problems);
    auto const answer = node ? json::read_object<TokenAnswer>(*node, json::Where{}, reading) : std::nullopt;
    if (!answer || !reading.problems.empty())
        return fail(ErrorKind::corrupt,
                    "the token service's answer cannot be read: " + std::move(reading.problems).take().front().text());
    std::string const& token = answer->token.empty() ? answer->access_token : answer->token;
    if (token.empty() || !is_printable(token))
        return fail(ErrorKind::corrupt, "the token service gives no usable token");
    return Token{token,
                 std::chrono::seconds(std::clamp(answer->expires_in, shortest_life_seconds, longest_life_seconds))};
}

role::HostCredential const* credential_for(role::Credentials const& credentials, Url const& url) {
    auto const found = std::ranges::find_if(credentials.hosts, [&](role::HostCredential const& each) {
        return authority_of(each.host, url.is_https) == url.authority;
    });
    return found == credentials.hosts.end() ? nullptr : &*found;
}

std::string Authorizations::key(Url const& url, std::string_view scope, role::HostCredential const* credential) {
    // The scheme is part of the key: a token that was received over https is not sent over http.
    return std::string(url.is_https ? "https " : "http ")
        .append(url.authority)
        .append(" ")
        .append(scope)
        .append(" ")
        .append(credential ? credential->user : "");
}

std::string Authorizations::known_for(Url const& url, std::string_view scope, role::HostCredential const* credential,
                                      TimePoint now) const {
    if (credential && !credential->token.empty()) return "Bearer " + credential->token;
    auto const found = known_.find(key(url, scope, credential));
    if (found == known_.end() || (found->second.until && *found->second.until <= now)) return "";
    return found->second.header;
}

/// The request to the service that a challenge names. An identity token goes into the body of a POST, as OAuth has it.
/// Source: distribution, docs/spec/auth/oauth.md; RFC 6749, section 6.
Result<TokenRequest> Authorizations::token_request(Url const& url, Challenge const& challenge, std::string_view scope,
                                                   role::HostCredential const* credential) {
    auto service = TRY(follow(url, challenge.realm));
    TokenRequest request{.url = std::move(service), .authorization = {}};
    if (credential) TRY(check_confidential(url, request.url));
    // The token is for the scope of the order, not for a wider one that the server names.
    std::string_view const wanted = scope.empty() ? std::string_view(challenge.scope) : scope;
    if (credential && !credential->identity_token.empty()) {
        request.form = "grant_type=refresh_token&client_id=triton-download";
        std::array<std::pair<std::string_view, std::string_view>, 3> const fields{
            {{"service", challenge.service}, {"scope", wanted}, {"refresh_token", credential->identity_token}}};
        for (auto const& [name, value] : fields)
            if (!value.empty()) request.form.append("&").append(name).append("=").append(text::percent_encoded(value));
        return request;
    }
    std::string text = request.url.text;
    if (!challenge.service.empty()) text = with_parameter(text, "service", challenge.service);
    if (!wanted.empty()) text = with_parameter(text, "scope", wanted);
    request.url = TRY(parse_url(text));
    if (credential) request.authorization = basic_authorization(credential->user, credential->password);
    return request;
}

Result<std::optional<TokenRequest>> Authorizations::on_refused(Url const& url, std::vector<std::string> const& headers,
                                                               std::string_view scope,
                                                               role::HostCredential const* credential) {
    if (known_.size() >= most_known) known_.clear();
    std::vector<Challenge> all;
    for (std::string const& header : headers)
        std::ranges::move(parse_challenges(header), std::back_inserter(all));
    // A registry that offers both has a token service, which may want more than a password.
    std::ranges::stable_partition(all, [](Challenge const& one) { return one.scheme == Challenge::Scheme::bearer; });
    bool const has_token = credential && !credential->token.empty();
    bool const has_password = credential && !has_token && credential->identity_token.empty();
    for (Challenge const& challenge : all) {
        switch (challenge.scheme) {
            case Challenge::Scheme::bearer:
                if (challenge.realm.empty() || has_token) continue;
                return TRY(token_request(url, challenge, scope, credential));
            case Challenge::Scheme::basic:
                if (!has_password) continue;
                known_[key(url, scope, credential)] = {basic_authorization(credential->user, credential->password),
                                                       std::nullopt};
                return std::nullopt;
        }
    }
    if (credential) return fail(ErrorKind::denied, url.authority + " refuses the credentials");
    return fail(ErrorKind::denied, url.authority + " wants credentials, and there are none for it");
}

void Authorizations::remember(Url const& url, std::string_view scope, role::HostCredential const* credential,
                              Token const& token, TimePoint now) {
    known_[key(url, scope, credential)] = {"Bearer " + token.text, now + token.lives_for};
}

}  // namespace triton::download
