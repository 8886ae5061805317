#include "host/machine/last_exit.h"

#include <algorithm>

#include "lib/base/signal_names.h"
#include "lib/base/signal_text.h"
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
    out.open('{').member("ended_at", exit.ended_at).member("exit_status", exit.exit_status);
    if (exit.is_signal) out.member("is_signal", true);
    if (exit.oom_kills > 0) out.member("oom_kills", exit.oom_kills);
    out.close('}');
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
    json::Node const* const is_signal = json::member(*node, "is_signal");
    return LastExit{.ended_at = *ended_at,
                    .exit_status = *exit_status,
                    .is_signal = is_signal && is_signal->get<bool>() && *is_signal->get<bool>(),
                    .oom_kills = std::max<std::int64_t>(json::number_of(*object, "oom_kills").value_or(0), 0)};
}

std::string reason_of(LastExit const& exit) {
    constexpr std::int64_t reboot = 133;  // of systemd-nspawn, see its unit
    std::string reason = "it exited with " + std::to_string(exit.exit_status);
    if (exit.exit_status == 0) reason = "it was shut down";
    if (exit.exit_status == reboot) reason = "it rebooted from inside";
    if (exit.is_signal) reason = signal_text(static_cast<int>(exit.exit_status)) + " ended systemd-nspawn";
    if (exit.oom_kills > 0)
        reason += "; the kernel killed " + std::to_string(exit.oom_kills) +
                  (exit.oom_kills == 1 ? " process" : " processes") + " for want of memory";
    return reason;
}

std::optional<std::int64_t> parse_exit_status(std::string_view text) {
    char const* const end = text.data() + text.size();
    int const number = parse_small_number(text.data(), end);
    if (number >= 0) return number <= 255 ? std::optional<std::int64_t>(number) : std::nullopt;
    int const signal = parse_signal(text.data(), end);
    return signal > 0 ? std::optional<std::int64_t>(signal) : std::nullopt;
}

}  // namespace triton::machine
