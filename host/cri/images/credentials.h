#pragma once

#include <string>

#include "host/image/reference.h"

namespace triton::cri {

/// What a request brings to log in with: one of user and password, both in Base64, and a token.
struct Credentials {
    std::string user = {};
    std::string password = {};
    std::string both = {};            ///< "USER:PASSWORD" in Base64
    std::string server = {};          ///< only for this one; empty: for the image's
    std::string identity_token = {};  ///< of OAuth
    std::string registry_token = {};

    bool operator==(Credentials const&) const = default;
};

/// The text of an authfile with them, for a pull of that image; empty: there are none.
std::string authfile_text(Credentials const& credentials, image::RegistryReference const& reference);

}  // namespace triton::cri
