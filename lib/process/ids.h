#pragma once

#include <cstdint>

#include <sys/types.h>

namespace triton::process {

enum class Pid : pid_t {};  ///< a kernel process id

/// A process's number among those of its program, from 1.
enum class ProcessNumber : std::uint32_t {};

/// No process has a higher one.
inline constexpr ProcessNumber highest_process_number{65535};

}  // namespace triton::process
