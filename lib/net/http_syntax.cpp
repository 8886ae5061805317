#include "lib/net/http_syntax.h"

#include <algorithm>

#include "lib/base/digits.h"
#include "lib/base/http_field.h"

namespace triton::net {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_registered_name(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        char const c = text[at];
        if (c == '%') {
            if (at + 2 >= text.size() || hex_value(text[at + 1]) < 0 || hex_value(text[at + 2]) < 0) return false;
            at += 2;
        } else if (!is_digit(c) && !is_letter(c) &&
                   std::string_view("-._~!$&'()*+,;=").find(c) == std::string_view::npos) {
            return false;
        }
    }
    return true;
}

bool is_address_in_brackets(std::string_view text) {
    return text.size() > 2 && std::ranges::all_of(text, [](char c) {
               return hex_value(c) >= 0 || c == ':' || c == '.' || c == '%' || is_letter(c);
           });
}

}  // namespace

LineVerdict check_request_line(std::span<char> buffer, std::size_t longest) {
    constexpr std::string_view version = " HTTP/";
    std::string_view const text(buffer.data(), buffer.size());
    // Does not wait for the rest when the beginning is TLS or something unknown.
    std::string_view const method = text.substr(0, text.find(' '));
    std::string_view const letters = method.substr(0, method.find_first_of("\r\n"));
    if (!std::ranges::all_of(letters, is_token_character)) return LineVerdict::bad;
    std::size_t const end = text.find('\n');
    if (std::min(end, text.size()) > longest) return LineVerdict::too_long;
    if (end == text.npos) return LineVerdict::incomplete;
    if (end == 0 || text[end - 1] != '\r') return LineVerdict::bad;
    std::string_view const line = text.substr(0, end - 1);
    std::size_t const at = line.rfind(version);
    if (at == line.npos || at + version.size() + 3 != line.size()) return LineVerdict::bad;
    std::string_view const number = line.substr(at + version.size());
    if (!is_digit(number[0]) || number[1] != '.' || !is_digit(number[2])) return LineVerdict::bad;
    if (number[0] != '1') return LineVerdict::bad_version;
    if (number[2] > '1') buffer[line.size() - 1] = '1';
    return LineVerdict::good;
}

std::optional<Target> parse_target(std::string_view target) {
    Target result;
    std::size_t const colon = target.find("://");
    bool const is_absolute =
        colon != target.npos && !target.starts_with('/') &&
        (are_same_letters(target.substr(0, colon), "http") || are_same_letters(target.substr(0, colon), "https"));
    if (is_absolute) {
        target.remove_prefix(colon + 3);
        result.authority = target.substr(0, target.find_first_of("/?#"));
        target.remove_prefix(result.authority.size());
        if (result.authority.empty() || !is_host_field(result.authority)) return std::nullopt;
    }
    target = target.substr(0, target.find('#'));
    std::size_t const question = target.find('?');
    result.path = target.substr(0, question);
    if (question != target.npos) result.query = target.substr(question + 1);
    if (is_absolute && result.path.empty()) result.path = "/";
    return result;
}

bool is_host_field(std::string_view text) {
    std::size_t end = text.find(':');
    if (text.starts_with('[')) {
        end = text.find(']');
        if (end == text.npos || !is_address_in_brackets(text.substr(1, end - 1))) return false;
        ++end;
    } else if (!is_registered_name(text.substr(0, end))) {
        return false;
    }
    std::string_view const port = end >= text.size() ? std::string_view() : text.substr(end);
    if (port.empty()) return true;
    return port[0] == ':' && port.size() <= 6 && std::ranges::all_of(port.substr(1), is_digit);
}

bool has_token(std::string_view list, std::string_view token) {
    while (!list.empty()) {
        std::string_view const one = list.substr(0, list.find(','));
        if (are_same_letters(trimmed(one), token)) return true;
        list.remove_prefix(std::min(list.size(), one.size() + 1));
    }
    return false;
}

bool is_number(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

std::optional<std::string> unescaped(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            out += text[at];
            continue;
        }
        int const high = at + 2 < text.size() ? hex_value(text[at + 1]) : -1;
        int const low = high < 0 ? -1 : hex_value(text[at + 2]);
        if (low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        at += 2;
    }
    return out;
}

}  // namespace triton::net
