#pragma once

#include <cstddef>

namespace triton::json {

/// What a document may cost us before anything in it is understood.
struct Limits {
    std::size_t document_bytes = 1 << 20;
    std::size_t depth = 64;        ///< arrays and objects inside each other
    std::size_t values = 1 << 18;  ///< JSON values in all
    std::size_t problems = 100;    ///< reported one by one; the rest is counted
};

}  // namespace triton::json
