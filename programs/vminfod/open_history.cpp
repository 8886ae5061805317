#include "programs/vminfod/open_history.h"

#include <algorithm>
#include <array>

#include "lib/json/lookup.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

namespace triton::program {

namespace {

constexpr std::array<std::string_view, 3> open_members{"time", "uuid", "command"};

std::string open_line(std::string_view line) {
    json::ProblemList problems(1);
    auto const event = json::read_json(line, {}, problems);
    if (!event || !event->get<json::Object>()) return {};
    json::Writer out;
    out.open('{');
    for (std::string_view const member : open_members)
        out.member(member, json::text_of(*event, member));
    out.member("outcome", json::text_of(*event, "outcome") == "ok" ? "ok" : "failed").close('}');
    return std::move(out).text() + "\n";
}

}  // namespace

std::string open_lines(std::string_view& lines, std::size_t most) {
    std::string text;
    for (std::size_t i = 0; i < most && !lines.empty(); ++i) {
        std::string_view const line = lines.substr(0, lines.find('\n'));
        lines.remove_prefix(std::min(lines.size(), line.size() + 1));
        text += open_line(line);
    }
    return text;
}

}  // namespace triton::program
