#pragma once

#include <string_view>

namespace triton::net {

/// How much an Accept field likes a media type that it names, 0 to 1; 0: it refuses it or does not name it. Wildcards
/// name nothing. Source: RFC 9110, 12.4.2 and 12.5.1.
double weight_of(std::string_view type, std::string_view accept);

}  // namespace triton::net
