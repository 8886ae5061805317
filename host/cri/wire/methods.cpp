#include "host/cri/wire/methods.h"

#include <algorithm>

namespace triton::cri {

Method const* find_method(std::string_view path) {
    auto const found = std::ranges::find(methods, path, &Method::path);
    return found == methods.end() ? nullptr : &*found;
}

}  // namespace triton::cri
