#pragma once

#include <string>
#include <string_view>

namespace triton::net {

/// What a browser allows a page: the scripts and styles that stand in it between tags without attributes, by their
/// hashes, and requests to the server that it came from. Text that gets into the page as markup runs nothing.
/// Source: W3C, Content Security Policy Level 3.
std::string page_policy(std::string_view page);

}  // namespace triton::net
