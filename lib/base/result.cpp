#include "lib/base/result.h"

#include <cstring>

namespace triton {

std::string errno_text(int err) {
    char const* const text = ::strerrordesc_np(err);
    return text ? text : "errno " + std::to_string(err);
}

std::unexpected<Error> fail(int err, std::string_view what) {
    std::string text = "cannot ";
    text.append(what).append(": ").append(errno_text(err));
    return std::unexpected(Error{err, std::move(text)});
}

std::unexpected<Error> fail(std::string text) { return std::unexpected(Error{0, std::move(text)}); }

}  // namespace triton
