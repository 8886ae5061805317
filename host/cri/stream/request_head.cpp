#include "host/cri/stream/request_head.h"

#include <algorithm>

#include "lib/base/http_field.h"

namespace triton::cri::stream {

namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::size_t most_fields = 100;

std::string lowered(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return out;
}

bool is_visible(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

/// A field's value: no control characters but tabs.
bool is_field_text(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c == '\t' || (c >= ' ' && c != 0x7f) || c < 0; });
}

std::unexpected<Error> bad() { return fail(ErrorKind::invalid, "this is no request of HTTP/1.1"); }

/// Takes a line from the front, without its end.
std::string_view take_line(std::string_view& rest) {
    std::size_t const end = std::min(rest.find(line_end), rest.size());
    std::string_view const line = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + line_end.size()));
    return line;
}

}  // namespace

Result<RequestHead> parse_request_head(std::string_view text) {
    std::string_view const line = take_line(text);
    std::size_t const first = line.find(' ');
    std::size_t const last = line.rfind(' ');
    if (first == std::string_view::npos || first == last || line.substr(last) != " HTTP/1.1") return bad();
    std::string_view target = line.substr(first + 1, last - first - 1);
    if (!is_visible(line.substr(0, first)) || !is_visible(target) || target.front() != '/') return bad();
    target = target.substr(0, target.find('?'));
    RequestHead head{.method = std::string(line.substr(0, first)), .path = std::string(target), .fields = {}};
    while (!text.empty()) {
        std::string_view const field = take_line(text);
        if (field.empty()) break;
        std::size_t const colon = field.find(':');
        if (colon == std::string_view::npos || colon == 0 ||
            !std::ranges::all_of(field.substr(0, colon), is_token_character) ||
            !is_field_text(field.substr(colon + 1)) || head.fields.size() >= most_fields)
            return bad();
        head.fields.emplace_back(lowered(field.substr(0, colon)), trimmed(field.substr(colon + 1)));
    }
    return head;
}

std::vector<std::string> RequestHead::list(std::string_view name) const {
    std::vector<std::string> members;
    for (auto const& [key, value] : fields) {
        if (key != name) continue;
        std::string_view rest = value;
        while (!rest.empty()) {
            std::size_t const comma = std::min(rest.find(','), rest.size());
            if (auto const member = trimmed(rest.substr(0, comma)); !member.empty()) members.emplace_back(member);
            rest.remove_prefix(std::min(rest.size(), comma + 1));
        }
    }
    return members;
}

bool RequestHead::has_token(std::string_view name, std::string_view token) const {
    return std::ranges::any_of(list(name), [&](std::string const& one) { return are_same_letters(one, token); });
}

std::string_view RequestHead::value(std::string_view name) const {
    auto const found = std::ranges::find(fields, name, [](auto const& field) { return std::string_view(field.first); });
    return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

std::string plain_answer(unsigned status, std::string_view reason, std::string_view text, std::string_view fields) {
    std::string answer = "HTTP/1.1 " + std::to_string(status) + " ";
    answer.append(reason).append(line_end);
    answer.append("Content-Type: text/plain; charset=utf-8\r\nContent-Length: " + std::to_string(text.size() + 1));
    answer.append("\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n").append(fields).append(line_end);
    return answer.append(text).append("\n");
}

}  // namespace triton::cri::stream
