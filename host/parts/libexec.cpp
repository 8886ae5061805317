#include "host/parts/libexec.h"

#include <cerrno>
#include <cstdlib>

#include <unistd.h>

namespace triton::parts {

namespace {

constexpr char installed_directory[] = "/usr/libexec/triton";

/// The directory of this program; in a build tree, the other programs are next to it.
Result<std::string> own_directory() {
    std::string self(4096, '\0');
    ssize_t const length = ::readlink("/proc/self/exe", self.data(), self.size());
    if (length < 0) return fail(errno, "find this program");
    self.resize(static_cast<std::size_t>(length));
    return self.substr(0, self.rfind('/'));
}

}  // namespace

Result<std::string> libexec_program(std::string const& name) {
    char const* const given = std::getenv("TRITON_LIBEXEC");
    std::string const beside = given && *given ? std::string(given) : TRY(own_directory());
    for (std::string const& directory : {beside, std::string(installed_directory)}) {
        std::string program = directory + "/" + name;
        if (::access(program.c_str(), X_OK) == 0) return program;
    }
    return fail(ErrorKind::unavailable, "find " + name, beside + "/" + name + " is not there");
}

}  // namespace triton::parts
