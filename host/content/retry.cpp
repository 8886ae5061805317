#include "host/content/retry.h"

#include <algorithm>
#include <utility>

namespace triton::content {

FailureClass class_of(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::busy:
        case ErrorKind::unavailable:
        case ErrorKind::timeout: return FailureClass::transient;
        case ErrorKind::exhausted: return FailureClass::resource;
        case ErrorKind::invalid:
        case ErrorKind::not_found:
        case ErrorKind::exists:
        case ErrorKind::refused:
        case ErrorKind::denied:
        case ErrorKind::corrupt:
        case ErrorKind::unsupported:
        case ErrorKind::internal: return FailureClass::permanent;
    }
    std::unreachable();
}

std::string_view name_of(FailureClass failure) {
    switch (failure) {
        case FailureClass::transient: return "transient";
        case FailureClass::permanent: return "permanent";
        case FailureClass::resource: return "resource";
    }
    std::unreachable();
}

std::optional<milliseconds> Retry::after(FailureClass failure, std::optional<milliseconds> asked,
                                         std::uint32_t random) {
    if (failure != FailureClass::transient || ++failures_ >= settings_.attempts) return std::nullopt;
    milliseconds wait = settings_.first;
    for (unsigned i = 1; i < failures_ && wait < settings_.longest; ++i)
        wait *= 2;
    wait = std::min(wait, settings_.longest);
    // Half of the wait is fixed: clients that failed together come back at different times, and none too soon.
    wait = wait / 2 + wait * (random % 1024) / 2048;
    if (!asked) return wait;
    if (*asked > settings_.longest) return std::nullopt;  // the server chooses it, and is not trusted with that
    return std::max(wait, *asked);
}

}  // namespace triton::content
