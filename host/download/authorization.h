#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/download/challenge.h"
#include "host/download/url.h"
#include "host/role/download_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::download {

/// Returns "Basic ..." for a header.
std::string basic_authorization(std::string_view user, std::string_view password);

/// A request to a token service.
struct TokenRequest {
    Url url;
    std::string authorization;  ///< empty for public content
    std::string form = {};      ///< of a POST, with an identity token; empty: it is a GET
};

struct Token {
    std::string text;
    milliseconds lives_for{};
};

/// Reads the answer of a token service. Errors: `corrupt`.
/// Source: distribution-spec, "token authentication": token or access_token, expires_in (60 when it is absent).
Result<Token> parse_token(std::string_view json);

/// The credential for a server; null when there is none.
role::HostCredential const* credential_for(role::Credentials const& credentials, Url const& url);

/// What is known about the authorization that servers want: so only the first request to each is refused.
class Authorizations {
public:
    /// The content of the header for a request; empty: none seems to be needed.
    [[nodiscard]] std::string known_for(Url const& url, std::string_view scope, role::HostCredential const* credential,
                                        TimePoint now) const;

    /// A server has refused a request. Returns the request to its token service, or nothing when known_for() now has an
    /// answer. Errors: `denied`: "registry.example:443 wants credentials, and there are none for it".
    Result<std::optional<TokenRequest>> on_refused(Url const& url, std::vector<std::string> const& challenges,
                                                   std::string_view scope, role::HostCredential const* credential);

    void remember(Url const& url, std::string_view scope, role::HostCredential const* credential, Token const& token,
                  TimePoint now);

private:
    struct Known {
        std::string header;
        std::optional<TimePoint> until;
    };
    Result<TokenRequest> token_request(Url const& url, Challenge const& challenge, std::string_view scope,
                                       role::HostCredential const* credential);
    static std::string key(Url const& url, std::string_view scope, role::HostCredential const* credential);
    std::map<std::string, Known, std::less<>> known_;
};

}  // namespace triton::download
