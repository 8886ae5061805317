#include "programs/vminfod/options.h"

#include <array>

#include "host/machine/store.h"
#include "lib/base/read_file.h"
#include "lib/base/root_prefix.h"
#include "lib/flags/flags.h"
#include "lib/json/reader.h"
#include "lib/json/text.h"

namespace triton::program {

namespace {

constexpr std::size_t most_configuration_bytes = 1 << 20;

constexpr std::array<flags::Choice<log::LogLevel>, 4> log_levels{{{"debug", log::LogLevel::debug},
                                                                  {"info", log::LogLevel::info},
                                                                  {"warning", log::LogLevel::warning},
                                                                  {"error", log::LogLevel::error}}};
constexpr std::array<flags::Choice<log::LogFormat>, 2> log_formats{
    {{"text", log::LogFormat::text}, {"json", log::LogFormat::json}}};

flags::Flags make_flags(DaemonOptions& options) {
    return {
        {"root", "", 0, "DIR", "a directory to put before all paths of the host", flags::into(options.root)},
        {"listen", "", 0, "ADDRESS", "127.0.0.1:PORT, [::1]:PORT or none (default: the configuration's)",
         flags::into(options.listen)},
        {"socket", "", 0, "PATH", "path of the Unix socket (default: /run/triton/vminfod.socket)",
         flags::into(options.socket)},
        {"log-level", "", 0, "LEVEL", "debug, info (default), warning, error",
         flags::into_choice(options.log_level, log_levels)},
        {"log-format", "", 0, "FORMAT", "text or json (default: text on a terminal, json elsewhere)",
         flags::into_choice(options.log_format, log_formats)},
    };
}

std::string help_text(flags::Flags const& flags) {
    return "Usage: vminfod [OPTIONS]\n\n"
           "Keeps the state of all machines of this host in memory, as reported by files, systemd, the pool and the\n"
           "machines' launchers, and serves it with an event stream over HTTP: everything on a Unix socket, and\n"
           "without secrets on the loopback interface. Runs in the foreground, usually as vminfod.service.\n\n" +
           flags::help_rows(flags) + flags::help_row('h', "help", "", "this text") +
           flags::help_row('V', "version", "", "the version") +
           "\nEach option is also an environment variable: --log-level is VMINFOD_LOG_LEVEL.\n"
           "Manual: vminfod(8).\n";
}

Result<> read_info(json::Object const& info, std::string const& path, InfoConfiguration& configuration) {
    auto const wrong = [&path](std::string const& what) { return fail(path + ": info." + what); };
    for (json::Member const& member : info) {
        if (member.key == "listen") {
            bool const is_null = std::holds_alternative<json::Null>(member.node.value);
            auto const* const text = member.node.get<std::string>();
            if (!is_null && !text) return wrong("listen: expected an address, or null");
            configuration.listen = text ? std::optional(*text) : std::nullopt;
        } else if (member.key == "open_secrets") {
            auto const* const flag = member.node.get<bool>();
            if (!flag) return wrong("open_secrets: expected true or false");
            configuration.has_open_secrets = *flag;
        } else {
            return wrong(json::shown(member.key) + ": unknown key");
        }
    }
    return {};
}

}  // namespace

Result<DaemonOptions> parse_options(std::span<char const* const> arguments, char const* const* environment) {
    DaemonOptions options;
    flags::Flags const flags = make_flags(options);
    flags::Program const program{"vminfod", "VMINFOD_", environment};
    auto const words = TRY(flags::parse_words(program, flags, arguments));
    if (words.wants_help) options.text = help_text(flags);
    if (words.wants_version) options.text = "vminfod " TRITON_VERSION "\n";
    if (options.text.empty() && !words.positional.empty())
        return fail("unexpected argument " + json::quoted(words.positional.front()));
    options.root = root_prefix(std::move(options.root));
    return options;
}

Result<InfoConfiguration> read_configuration(std::string const& root) {
    std::string const path = machine::Layout{root}.configuration();
    InfoConfiguration configuration;
    auto const text = read_file(path, most_configuration_bytes);
    if (!text && text.error().kind == ErrorKind::not_found) return configuration;
    if (!text) return std::unexpected(text.error());
    json::ProblemList problems(1);
    auto const node = json::read_json(*text, {}, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    if (!object)
        return fail(path + " is not a configuration: " +
                    (node ? "expected an object" : std::move(problems).take().front().text()));
    for (json::Member const& member : *object) {
        if (member.key != "info") continue;  // keys of other programs
        auto const* const info = member.node.get<json::Object>();
        if (!info) return fail(path + ": info: expected an object");
        TRY(read_info(*info, path, configuration));
    }
    return configuration;
}

Result<net::ListenAddress> parse_loopback_address(std::string const& text) {
    auto address = TRY(net::parse_listen_address(text));
    bool const is_loopback = address.host.starts_with("127.") || address.host == "::1" || address.host == "localhost";
    if (!is_loopback)
        return fail(ErrorKind::invalid, "listen on " + text, "only addresses of the loopback interface are served");
    return address;
}

}  // namespace triton::program
