#pragma once

#include <string>

namespace triton::http::spdy {

/// What both ends of a connection have in their memory before the first header block.
/// Source: draft-mbelshe-httpbis-spdy-00, 2.6.10.1.
std::string const& header_dictionary();

}  // namespace triton::http::spdy
