#include "host/cri/images/credentials.h"

#include <utility>

#include "lib/json/writer.h"

namespace triton::cri {

std::string authfile_text(Credentials const& credentials, image::RegistryReference const& reference) {
    bool const has_any = !credentials.user.empty() || !credentials.both.empty() ||
                         !credentials.registry_token.empty() || !credentials.identity_token.empty();
    if (!has_any) return std::string();
    json::Writer out;
    out.open('{')
        .key("auths")
        .open('{')
        .name(credentials.server.empty() ? reference.host : credentials.server)
        .open('{');
    if (!credentials.registry_token.empty())
        out.member("registrytoken", credentials.registry_token);
    else if (!credentials.identity_token.empty())
        out.member("identitytoken", credentials.identity_token);
    else if (!credentials.user.empty())
        out.member("username", credentials.user).member("password", credentials.password);
    else
        out.member("auth", credentials.both);
    out.close('}').close('}').close('}');
    return std::move(out).text();
}

}  // namespace triton::cri
