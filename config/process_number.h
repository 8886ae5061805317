#pragma once

#include <cstdint>

namespace triton::config {

/// A process's number in its container, from 1.
enum class ProcessNumber : std::uint32_t {};

/// No process has a higher one.
inline constexpr ProcessNumber highest_process_number{65535};

}  // namespace triton::config
