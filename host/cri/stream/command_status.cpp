#include "host/cri/stream/command_status.h"

#include "lib/json/lookup.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

namespace triton::cri::stream {

namespace {

constexpr std::size_t most_object_bytes = 256;
constexpr std::int64_t internal_error = 500;

std::string failure(Error const& error) {
    std::string const message = "Internal error occurred: " + error.text();
    json::Writer out;
    out.open('{').key("metadata").open('{').close('}');
    out.member("status", "Failure").member("reason", "InternalError").member("message", message);
    return std::move(out.member("code", internal_error).close('}')).text();
}

std::string exit_status(std::int64_t code) {
    std::string const number = std::to_string(code);
    json::Writer out;
    out.open('{').key("metadata").open('{').close('}');
    out.member("status", "Failure").member("reason", "NonZeroExitCode");
    out.member("message", "command terminated with non-zero exit code: " + number);
    out.key("details").open('{').key("causes").open('[').open('{');
    out.member("reason", "ExitCode").member("message", number).close('}').close(']').close('}');
    return std::move(out.close('}')).text();
}

std::optional<TerminalSize> parse_terminal_size(std::string_view object) {
    json::ProblemList problems(1);
    auto const node = json::read_json(object, json::Limits{}, problems);
    if (!node) return std::nullopt;
    auto const* const width = json::value_of<std::int64_t>(*node, "Width");
    auto const* const height = json::value_of<std::int64_t>(*node, "Height");
    if (!width || !height) return std::nullopt;
    return TerminalSize{*width, *height};
}

}  // namespace

std::string command_status(Result<std::int64_t> const& exit_code, bool is_object) {
    if (!is_object) {
        if (!exit_code) return exit_code.error().text();
        return *exit_code == 0 ? "" : "command terminated with non-zero exit code: " + std::to_string(*exit_code);
    }
    if (!exit_code) return failure(exit_code.error());
    if (*exit_code != 0) return exit_status(*exit_code);
    return R"({"metadata":{},"status":"Success"})";
}

std::optional<TerminalSize> TerminalSizes::receive(std::string_view bytes) {
    std::optional<TerminalSize> last;
    for (char const c : bytes) {
        if (c == '{') object_.clear();
        object_ += c;
        if (object_.size() > most_object_bytes) object_.clear();
        if (c != '}') continue;
        if (auto const size = parse_terminal_size(object_)) last = size;
        object_.clear();
    }
    return last;
}

}  // namespace triton::cri::stream
