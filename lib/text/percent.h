#pragma once

#include <string>
#include <string_view>

namespace triton::text {

/// What is not a letter, a digit or one of "-._~" as "%XX", for the query of a URL. Source: RFC 3986, section 2.1.
std::string percent_encoded(std::string_view text);

}  // namespace triton::text
