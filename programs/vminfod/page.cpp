#include "programs/vminfod/page.h"

#include "page_bytes.h"

namespace triton::program {

std::string_view page() {
    return {reinterpret_cast<char const*>(page_bytes), sizeof page_bytes};  // bytes are text
}

}  // namespace triton::program
