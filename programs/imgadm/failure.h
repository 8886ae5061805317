#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::program {

/// What imgadm exits with.
enum class ExitCode : int {
    ok = 0,
    failed = 1,
    usage = 2,
    not_installed = 3,  ///< an image that was named is not installed
    interrupted = 130,  ///< as a shell says it of SIGINT
};

/// An error with its meaning for the caller of the command.
struct Failure {
    ExitCode exit = ExitCode::failed;
    std::string code;  ///< a word for programs: "ImageNotInstalled"
    Error error;
};

/// Makes a failure of an error while a command ran.
Failure failure_of(Error error);
/// The same while something was fetched: other imgadms have a word of their own for what came wrong.
Failure download_failure(Error error);
/// Makes a failure of a wrong command line.
Failure usage_failure(std::string reason);
/// Makes a failure of an image that should be installed and is not.
Failure not_installed(Error error);
/// The user has stopped the command before it did anything.
Failure interrupted();

/// "imgadm: error (ImageNotInstalled): ..." with a line for each detail, printable; with `is_json` an
/// object in one line.
std::string render_failure(Failure const& failure, bool is_json);

}  // namespace triton::program
