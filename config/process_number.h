#pragma once

#include <cstdint>

namespace triton::config {

/// A process's number in its container, from 1.
enum class ProcessNumber : std::uint32_t {};

}  // namespace triton::config
