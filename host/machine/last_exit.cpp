#include "host/machine/last_exit.h"

#include "lib/base/signal_names.h"
#include "lib/json/lookup.h"
#include "lib/json/reader.h"
#include "lib/json/table.h"
#include "lib/json/writer.h"

namespace triton::machine {

namespace {

constexpr std::int64_t latest = 253'402'300'799'999'999;  // the end of the year 9999: later times have no text

}  // namespace

std::string last_exit_text(LastExit const& exit) {
    json::Writer out;
    out.open('{').member("ended_at", exit.ended_at).member("exit_status", exit.exit_status).close('}');
    return std::move(out).text() + "\n";
}

Result<LastExit> parse_last_exit(std::string const& text, std::string const& path) {
    json::Reading reading(1);
    auto const node = json::read_json(text, {}, reading.problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    auto const ended_at = object ? json::number_of(*object, "ended_at") : std::nullopt;
    auto const exit_status = object ? json::number_of(*object, "exit_status") : std::nullopt;
    bool const is_time = ended_at && *ended_at > 0 && *ended_at <= latest;
    bool const is_status = exit_status && *exit_status >= 0 && *exit_status <= 255;
    if (!is_time || !is_status) return fail(ErrorKind::corrupt, "read " + path, "it does not say how a machine ended");
    return LastExit{.ended_at = *ended_at, .exit_status = *exit_status};
}

std::optional<std::int64_t> parse_exit_status(std::string_view text) {
    char const* const end = text.data() + text.size();
    int const number = parse_small_number(text.data(), end);
    if (number >= 0) return number <= 255 ? std::optional<std::int64_t>(number) : std::nullopt;
    int const signal = parse_signal(text.data(), end);
    return signal > 0 ? std::optional<std::int64_t>(signal) : std::nullopt;
}

}  // namespace triton::machine
