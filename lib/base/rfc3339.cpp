#include "lib/base/rfc3339.h"

#include <array>
#include <ctime>

namespace triton {

std::string rfc3339(std::int64_t unix_seconds) {
    std::time_t const time = unix_seconds;
    std::tm parts{};
    std::array<char, 32> text{};
    if (!::gmtime_r(&time, &parts)) return "1970-01-01T00:00:00Z";
    return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace triton
