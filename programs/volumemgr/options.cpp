#include "programs/volumemgr/options.h"

#include <array>

#include "lib/base/root_prefix.h"
#include "lib/flags/flags.h"
#include "lib/json/text.h"

namespace triton::program {

namespace {

constexpr std::array<flags::Choice<log::LogLevel>, 4> log_levels{{{"debug", log::LogLevel::debug},
                                                                  {"info", log::LogLevel::info},
                                                                  {"warning", log::LogLevel::warning},
                                                                  {"error", log::LogLevel::error}}};
constexpr std::array<flags::Choice<log::LogFormat>, 2> log_formats{
    {{"text", log::LogFormat::text}, {"json", log::LogFormat::json}}};

flags::Apply into_optional(std::optional<Duration>& target) {
    return [&target](std::string const& text) -> Result<> {
        Duration read{};
        TRY(flags::into(read)(text));
        target = read;
        return {};
    };
}

flags::Flags make_flags(ManagerOptions& options) {
    return {
        {"root", "", 0, "DIR", "a directory to put before all paths of the host", flags::into(options.root)},
        {"socket", "", 0, "PATH", "path of the socket (default: /run/triton/volumemgr.socket)",
         flags::into(options.socket)},
        {"idle", "", 0, "DURATION", "how long it stays when there is nothing to do and nobody connected (default: 60s)",
         into_optional(options.idle)},
        {"collect-after", "", 0, "DURATION", "how long a volume that nobody claims stays: timer.gc.vdisk (default: 1h)",
         into_optional(options.collect_after)},
        {"keep-content-for", "", 0, "DURATION",
         "how long content that nobody wants stays: timer.defer.content.delete (default: 0s)",
         into_optional(options.keep_content_for)},
        {"retry-after", "", 0, "DURATION",
         "when a server that has refused is asked again: timer.download.retry (default: 10m)",
         into_optional(options.retry_after)},
        {"log-level", "", 0, "LEVEL", "debug, info (default), warning, error",
         flags::into_choice(options.log_level, log_levels)},
        {"log-format", "", 0, "FORMAT", "text or json (default: text on a terminal, json elsewhere)",
         flags::into_choice(options.log_format, log_formats)},
    };
}

std::string help_text(flags::Flags const& flags) {
    return "Usage: volumemgr [OPTIONS]\n\n"
           "Makes, keeps and removes the volumes of this host as they are published by files, vmadm and volumeadm. It\n"
           "is started by its socket, and ends by itself when there is nothing to do.\n\n" +
           flags::help_rows(flags) + flags::help_row('h', "help", "", "this text") +
           flags::help_row('V', "version", "", "the version") +
           "\nEach option is also an environment variable: --log-level is VOLUMEMGR_LOG_LEVEL.\n"
           "Its command: volumeadm(8).\n";
}

}  // namespace

volume::Settings ManagerOptions::settings(VolumesConfiguration const& configuration) const {
    volume::Settings settings;
    auto const set = [](milliseconds& setting, std::optional<Duration> const& option,
                        std::optional<milliseconds> const& configured) {
        if (option)
            setting = std::chrono::duration_cast<milliseconds>(*option);
        else if (configured)
            setting = *configured;
    };
    set(settings.collect_after, collect_after, configuration.collect_after);
    set(settings.keep_content_for, keep_content_for, configuration.keep_content_for);
    set(settings.retry.server, retry_after, configuration.retry_after);
    settings.ledger.floor = configuration.reserve;
    settings.ledger.overcommit = configuration.overcommit;
    return settings;
}

Duration ManagerOptions::idle_time(VolumesConfiguration const& configuration) const {
    constexpr Duration usual = std::chrono::seconds(60);
    if (idle) return *idle;
    return configuration.idle ? Duration(*configuration.idle) : usual;
}

Result<ManagerOptions> parse_options(std::span<char const* const> arguments, char const* const* environment) {
    ManagerOptions options;
    flags::Flags const flags = make_flags(options);
    flags::Program const program{"volumemgr", "VOLUMEMGR_", environment};
    auto const words = TRY(flags::parse_words(program, flags, arguments));
    if (words.wants_help) options.text = help_text(flags);
    if (words.wants_version) options.text = "volumemgr " TRITON_VERSION "\n";
    if (options.text.empty() && !words.positional.empty())
        return fail("unexpected argument " + json::quoted(words.positional.front()));
    options.root = root_prefix(std::move(options.root));
    return options;
}

}  // namespace triton::program
