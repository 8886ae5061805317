#pragma once

#include <string_view>

namespace triton::program {

/// The page at /: page/index.html as it was when this program was built.
std::string_view page();

}  // namespace triton::program
