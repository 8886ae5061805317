#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "host/image/sources.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Reads the URL of a proxy, as curl takes it: "http://user:password@proxy:3128", "proxy:3128", "socks5h://proxy".
/// `what` names it in errors, which never have the URL in them: it may have a password. Errors: `invalid`.
Result<role::Proxy> parse_proxy(std::string_view url, std::string_view what);

/// A variable of the environment; empty: it is not set.
using Variable = std::function<std::string(std::string const& name)>;

/// The proxies of the environment: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, or the same in lower case, which
/// counts more. This machine itself is never asked through one of them. Errors: `invalid`, with the variable.
Result<role::Proxies> proxies_of_environment(Variable const& variable);

/// The proxies for a source: its own key, or, as for what is no source (null), those of the environment. `authfile`:
/// the file with the credentials of the proxy that the key names; empty: there are none.
Result<role::Proxies> proxies_for(Workshop const& shop, Source const* source, std::string const& authfile);

}  // namespace triton::image
