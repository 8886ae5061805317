#include "lib/http/grpc/timeout.h"

#include <algorithm>
#include <cstdint>

namespace triton::http::grpc {

namespace {

constexpr std::size_t most_digits = 8;
constexpr Duration longest = std::chrono::hours(24 * 365);  // 99,999,999 hours are more than a clock can add

std::optional<std::int64_t> nanoseconds_of_unit(char unit) {
    switch (unit) {
        case 'H': return 3'600'000'000'000;
        case 'M': return 60'000'000'000;
        case 'S': return 1'000'000'000;
        case 'm': return 1'000'000;
        case 'u': return 1'000;
        case 'n': return 1;
        default: return std::nullopt;
    }
}

}  // namespace

std::optional<Duration> parse_timeout(std::string_view text) {
    if (text.size() < 2 || text.size() > most_digits + 1) return std::nullopt;
    auto const unit = nanoseconds_of_unit(text.back());
    if (!unit) return std::nullopt;
    std::int64_t count = 0;
    for (char const c : text.substr(0, text.size() - 1)) {
        if (c < '0' || c > '9') return std::nullopt;
        count = count * 10 + (c - '0');
    }
    return count > longest.count() / *unit ? longest : Duration(count * *unit);
}

std::string timeout_text(Duration timeout) {
    constexpr std::int64_t most = 99'999'999;
    std::int64_t const all = std::max<std::int64_t>(timeout.count(), 0);
    for (char const unit : {'n', 'u', 'm', 'S', 'M'}) {
        std::int64_t const count = all / *nanoseconds_of_unit(unit);
        if (count <= most) return std::to_string(count) + unit;
    }
    return std::to_string(all / *nanoseconds_of_unit('H')) + 'H';
}

}  // namespace triton::http::grpc
