#pragma once

#include <cstddef>

#include "lib/json/limits.h"
#include "lib/process/ids.h"

namespace triton::config {

/// Limits of a ProcessConfiguration: as a document, and of what it expands to.
struct Limits {
    json::Limits document = {};
    std::size_t arguments = 65536;  ///< Argument objects in all, nested ones included
    std::size_t programs = 1024;
    std::size_t processes = static_cast<std::size_t>(process::highest_process_number);  ///< of all programs
    std::size_t sockets = 1024;                                                         ///< of all programs
    /// One argument with its final NUL. Source: Linux include/uapi/linux/binfmts.h, MAX_ARG_STRLEN (32 pages of 4 KiB).
    std::size_t argument_bytes = 32 * 4096;
    /// All arguments with their pointers. Source: execve(2), "Limits on size of arguments and environment" (3/4 of 8
    /// MiB).
    std::size_t command_bytes = 6 << 20;
};

}  // namespace triton::config
