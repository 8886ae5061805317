#include "host/machine/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace triton::machine {

namespace {

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool is_word(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

bool is_compression(std::string_view text) {
    static constexpr std::array<std::string_view, 6> names{"on", "off", "gzip", "lz4", "lzjb", "zle"};
    bool const has_level = text.size() == 6 && text.starts_with("gzip-") && text[5] >= '1' && text[5] <= '9';
    return has_level || std::ranges::find(names, text) != names.end();
}

bool is_host_name(std::string_view text) {
    if (text.empty() || text.size() > 64 || !is_word(text.front()) || !is_word(text.back())) return false;
    return std::ranges::all_of(text, [](char c) { return is_word(c) || c == '.' || c == '-'; }) &&
           text.find("..") == std::string_view::npos;
}

}  // namespace

std::optional<std::int64_t> integer_of(std::string_view text) {
    std::int64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return number;
}

std::optional<bool> read_flag(json::Node const& node, json::Where const& at, json::Reading& reading) {
    if (auto const* const text = node.get<std::string>()) {
        if (*text == "true") return true;
        if (*text == "false") return false;
        reading.problems.add(at, "expected true or false, found " + json::quoted(*text));
        return std::nullopt;
    }
    return json::read_boolean(node, at, reading);
}

std::optional<std::int64_t> read_whole(json::Node const& node, json::Where const& at, std::int64_t lowest,
                                       std::int64_t highest, json::Reading& reading) {
    if (auto const* const text = node.get<std::string>()) {
        if (auto const number = integer_of(*text))
            return json::read_integer_within(json::Node{*number}, at, lowest, highest, reading);
        reading.problems.add(at, "expected an integer, found " + json::quoted(*text));
        return std::nullopt;
    }
    return json::read_integer_within(node, at, lowest, highest, reading);
}

std::optional<std::int64_t> bytes_of(std::string_view text) {
    for (std::string_view const end : {"iB", "B", "i"}) {
        if (!text.ends_with(end)) continue;
        text.remove_suffix(end.size());
        break;
    }
    constexpr std::string_view units = "KMGTP";
    std::size_t const unit = text.empty() ? units.npos : units.find(static_cast<char>(text.back() & ~0x20));
    if (unit == units.npos) return std::nullopt;
    text.remove_suffix(1);
    double number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc() || end != text.data() + text.size() || !(number >= 0)) return std::nullopt;
    double const bytes = std::ldexp(number, 10 * (static_cast<int>(unit) + 1));
    if (bytes > std::ldexp(1.0, 62) || bytes != std::floor(bytes)) return std::nullopt;
    return static_cast<std::int64_t>(bytes);
}

std::optional<std::int64_t> read_units(json::Node const& node, json::Where const& at, std::int64_t unit,
                                       std::int64_t highest, json::Reading& reading) {
    auto const* const text = node.get<std::string>();
    if (!text || integer_of(*text)) return read_whole(node, at, 0, highest, reading);
    std::string_view const name = unit == std::int64_t{1} << 20 ? "MiB" : "GiB";
    auto const bytes = bytes_of(*text);
    if (bytes && *bytes % unit == 0)
        return json::read_integer_within(json::Node{*bytes / unit}, at, 0, highest, reading);
    reading.problems.add(at, json::quoted(*text) + (bytes ? " is not a whole number of " : " is not a number of ") +
                                 std::string(name) + " (for example 2, or \"2G\")");
    return std::nullopt;
}

std::optional<std::string> read_line(json::Node const& node, json::Where const& at, std::size_t longest,
                                     json::Reading& reading) {
    auto const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (text->empty()) {
        reading.problems.add(at, "must not be empty");
    } else if (text->size() > longest) {
        reading.problems.add(
            at, "has " + std::to_string(text->size()) + " bytes, but is limited to " + std::to_string(longest));
    } else if (std::ranges::any_of(*text, is_control)) {
        reading.problems.add(at, "must not have control characters: " + json::quoted(*text));
    } else {
        return *text;
    }
    return std::nullopt;
}

std::optional<Uuid> read_uuid(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    auto uuid = parse_uuid(*text);
    if (uuid) return *uuid;
    reading.problems.add(at, uuid.error().text());
    return std::nullopt;
}

std::optional<std::string> read_host_name(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (is_host_name(*text)) return *text;
    reading.problems.add(at, json::quoted(*text) + " is not a host name");
    return std::nullopt;
}

std::optional<std::string> read_path(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto path = read_line(node, at, 4095, reading);
    if (!path) return std::nullopt;
    bool const goes_up = (*path + "/").find("/../") != std::string::npos;
    if (path->front() == '/' && !goes_up) return path;
    reading.problems.add(at, json::quoted(*path) + (goes_up ? " must not have \"..\"" : " is not an absolute path"));
    return std::nullopt;
}

std::optional<std::vector<std::string>> read_list(json::Node const& node, json::Where const& at,
                                                  json::Reading& reading) {
    std::vector<std::string> list;
    if (auto const* const text = node.get<std::string>()) {
        std::string_view rest = *text;
        while (!rest.empty()) {
            std::size_t const comma = std::min(rest.find(','), rest.size());
            if (comma > 0) {
                auto element = read_line(json::Node{std::string(rest.substr(0, comma))}, at, 1024, reading);
                if (!element) return std::nullopt;
                list.push_back(std::move(*element));
            }
            rest.remove_prefix(std::min(comma + 1, rest.size()));
        }
        return list;
    }
    auto const* const array = json::expect<json::Array>("an array or a string", node, at, reading);
    if (!array) return std::nullopt;
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Where const here{&at, i};
        auto const* const number = (*array)[i].get<std::int64_t>();  // of a port
        auto element = number ? std::to_string(*number) : read_line((*array)[i], here, 1024, reading);
        if (!element) return std::nullopt;
        if (element->find(',') != std::string::npos) {
            reading.problems.add(here, "must not have a comma: " + json::quoted(*element));
            return std::nullopt;
        }
        list.push_back(std::move(*element));
    }
    return list;
}

std::optional<json::Object> read_flat(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const object = json::expect<json::Object>("an object", node, at, reading);
    if (!object) return std::nullopt;
    for (json::Member const& member : *object) {
        if (!member.node.get<json::Object>() && !member.node.get<json::Array>() && !member.node.get<json::Null>())
            continue;
        reading.problems.add(json::Where{&at, std::string_view(member.key)},
                             "expected a string, a number or a boolean, found " + std::string(member.node.kind()));
        return std::nullopt;
    }
    return *object;
}

std::optional<json::Object> read_any_object(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const object = json::expect<json::Object>("an object", node, at, reading);
    return object ? std::optional(*object) : std::nullopt;
}

std::optional<std::string> read_compression(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (is_compression(*text)) return *text;
    reading.problems.add(
        at, "unknown compression " + json::quoted(*text) + " (known: on, off, gzip, gzip-1 to gzip-9, lz4, lzjb, zle)");
    return std::nullopt;
}

std::optional<std::int64_t> read_record_size(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const size = read_whole(node, at, 512, 131072, reading);
    if (!size || (*size & (*size - 1)) == 0) return size;
    reading.problems.add(at, std::to_string(*size) + " is not a power of two");
    return std::nullopt;
}

std::optional<std::string> canonical_mac(std::string_view text) {
    std::string mac;
    for (int group = 0; group < 6; ++group) {
        std::size_t const end = std::min(text.find(':'), text.size());
        std::string digits(text.substr(0, end));
        std::ranges::transform(digits, digits.begin(), lower);
        if (digits.empty() || digits.size() > 2 || !std::ranges::all_of(digits, is_hex)) return std::nullopt;
        mac += (group ? ":" : "") + std::string(2 - digits.size(), '0') + digits;
        bool const is_last = end == text.size();
        if (is_last != (group == 5)) return std::nullopt;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return mac;
}

std::optional<std::string> read_mac(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    auto mac = canonical_mac(*text);
    if (!mac) reading.problems.add(at, json::quoted(*text) + " is not a MAC address");
    return mac;
}

std::string time_text(std::int64_t microseconds) {
    std::time_t const seconds = microseconds / 1'000'000;
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    std::array<char, 80> text{};
    (void)std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                        parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                        static_cast<int>(microseconds / 1000 % 1000));
    return text.data();
}

std::optional<std::int64_t> parse_time(std::string_view text) {
    static constexpr std::string_view form = "0000-00-00T00:00:00.000Z";
    if (text.size() != form.size()) return std::nullopt;
    auto const number = [text](std::size_t at, std::size_t size) {
        return static_cast<int>(integer_of(text.substr(at, size)).value_or(0));
    };
    std::tm parts{};
    parts.tm_year = number(0, 4) - 1900;
    parts.tm_mon = number(5, 2) - 1;
    parts.tm_mday = number(8, 2);
    parts.tm_hour = number(11, 2);
    parts.tm_min = number(14, 2);
    parts.tm_sec = number(17, 2);
    std::int64_t const time = (std::int64_t{::timegm(&parts)} * 1000 + number(20, 3)) * 1000;
    return time >= 0 && time_text(time) == text ? std::optional(time) : std::nullopt;
}

}  // namespace triton::machine
