#include "lib/json/table.h"

#include "lib/base/nearest.h"

namespace triton::json {

std::string suggestion(std::string_view name, std::span<std::string_view const> known) {
    auto const meant = nearest(name, known);
    return meant ? "; did you mean " + quoted(*meant) + "?" : "";
}

}  // namespace triton::json
