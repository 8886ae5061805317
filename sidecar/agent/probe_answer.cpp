#include "sidecar/agent/probe_answer.h"

#include <charconv>
#include <string>

#include "lib/base/digits.h"

namespace triton::agent {

namespace {

std::unexpected<Error> no_http(std::string_view why) {
    return fail(ErrorKind::corrupt, "the answer is not HTTP: " + std::string(why));
}

/// Parses "HTTP/1.1 200 OK".
Result<unsigned> parse_status_line(std::string_view line) {
    constexpr std::string_view protocol = "HTTP/1.";
    if (!line.starts_with(protocol) || line.size() == protocol.size() || !is_digit(line[protocol.size()]))
        return no_http("bad version");
    line.remove_prefix(protocol.size() + 1);
    std::string_view const code = line.substr(0, 4);
    unsigned status = 0;
    bool const is_code = code.starts_with(' ') && code.size() == 4 &&
                         std::from_chars(code.data() + 1, code.data() + 4, status).ptr == code.data() + 4;
    if (!is_code || status < 100 || (line.size() > 4 && line[4] != ' ')) return no_http("bad status");
    return status;
}

bool is_field(std::string_view line) {
    if (line[0] == ' ' || line[0] == '\t') return true;  // continues the line before
    std::size_t const colon = line.find(':');
    return colon != line.npos && colon > 0;
}

}  // namespace

Result<std::size_t> ProbeAnswer::take(std::string_view text) {
    std::size_t taken = 0;
    while (!is_complete_) {
        std::size_t const end = text.find('\n', taken);
        if (end == text.npos) break;
        std::string_view line = text.substr(taken, end - taken);
        if (line.ends_with('\r')) line.remove_suffix(1);
        TRY(take_line(line));
        taken = end + 1;
    }
    return taken;
}

Result<> ProbeAnswer::take_line(std::string_view line) {
    if (status_ == 0) {
        status_ = TRY(parse_status_line(line));
    } else if (line.empty()) {
        is_complete_ = status_ >= 200;
        if (!is_complete_) status_ = 0;
    } else if (!is_field(line)) {
        return no_http("bad field");
    }
    return {};
}

}  // namespace triton::agent
