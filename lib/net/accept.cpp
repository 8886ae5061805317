#include "lib/net/accept.h"

#include <algorithm>
#include <charconv>

#include "lib/base/http_field.h"

namespace triton::net {

namespace {

/// Returns what is before the separator; `rest` becomes what is after it.
std::string_view take_until(std::string_view& rest, char separator) {
    std::string_view const taken = rest.substr(0, rest.find(separator));
    rest.remove_prefix(std::min(rest.size(), taken.size() + 1));
    return taken;
}

struct MediaRange {
    std::string_view type;
    double weight = 1;  // 0: not wanted; so is one that cannot be read
};

/// Reads one range of an Accept field. Source: RFC 9110, 12.4.2 and 12.5.1.
MediaRange parse_media_range(std::string_view text) {
    MediaRange range{.type = trimmed(take_until(text, ';'))};
    while (!text.empty()) {
        std::string_view value = take_until(text, ';');
        if (!are_same_letters(trimmed(take_until(value, '=')), "q")) continue;
        value = trimmed(value);
        auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), range.weight);
        if (error != std::errc() || end != value.data() + value.size()) range.weight = 0;
    }
    return range;
}

}  // namespace

double weight_of(std::string_view type, std::string_view accept) {
    double weight = 0;
    for (std::string_view rest = accept; !rest.empty();) {
        MediaRange const range = parse_media_range(take_until(rest, ','));
        if (are_same_letters(range.type, type)) weight = range.weight;
    }
    return weight;
}

}  // namespace triton::net
