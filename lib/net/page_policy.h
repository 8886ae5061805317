#pragma once

#include <string>
#include <string_view>

namespace triton::net {

/// The permissions of a page in a browser: the scripts and styles between its tags without attributes, by their
/// hashes, and requests to the server that it came from. Text that gets into the page as markup runs nothing.
/// Source: W3C, Content Security Policy Level 3.
std::string page_policy(std::string_view page);

}  // namespace triton::net
