#pragma once

#include <cstddef>

#include "config/process_number.h"

namespace triton::config {

/// What a document may cost us. The first three bound memory before anything is understood, the others what it expands
/// to.
struct Limits {
    std::size_t document_bytes = 1 << 20;
    std::size_t depth = 64;         ///< arrays and objects inside each other
    std::size_t values = 1 << 18;   ///< JSON values in all
    std::size_t arguments = 65536;  ///< Argument objects in all, nested ones included
    std::size_t programs = 1024;
    std::size_t processes = static_cast<std::size_t>(highest_process_number);  ///< of all programs
    std::size_t sockets = 1024;                                                ///< of all programs
    std::size_t problems = 100;  ///< reported one by one; the rest is counted
    /// One argument with its final NUL. Source: Linux include/uapi/linux/binfmts.h, MAX_ARG_STRLEN (32 pages of 4 KiB).
    std::size_t argument_bytes = 32 * 4096;
    /// All arguments with their pointers. Source: execve(2), "Limits on size of arguments and environment" (3/4 of 8
    /// MiB).
    std::size_t command_bytes = 6 << 20;
};

}  // namespace triton::config
