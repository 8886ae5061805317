#include "programs/tritoncrid/options.h"

#include <array>
#include <utility>

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

flags::Flags make_flags(CriOptions& options) {
    return {
        {"root", "", 0, "DIR", "a directory to put before all paths of the host", flags::into(options.root)},
        {"listen", "", 0, "PATH", "path of the Unix socket (default: /run/triton/cri.sock)",
         flags::into(options.listen)},
        {"log-level", "", 0, "LEVEL", "debug, info (default), warning, error",
         flags::into_choice(options.log_level, log_levels)},
        {"log-format", "", 0, "FORMAT", "text or json (default: text on a terminal, json elsewhere)",
         flags::into_choice(options.log_format, log_formats)},
    };
}

std::string help_text(flags::Flags const& flags) {
    return "Usage: tritoncrid [OPTIONS]\n\n"
           "Serves Kubernetes' container runtime interface (CRI) on a Unix socket: the images of imgadm, and pods that "
           "use\n"
           "the network of the node. Runs in the foreground, usually as tritoncrid.service.\n\n" +
           flags::help_rows(flags) + flags::help_row('h', "help", "", "this text") +
           flags::help_row('V', "version", "", "the version") +
           "\nEach option is also an environment variable: --log-level is TRITONCRID_LOG_LEVEL.\n"
           "\nExamples:\n"
           "  systemctl start tritoncrid.socket\n"
           "  tritoncrid --listen /run/triton/cri.sock --log-level debug\n"
           "  kubelet --container-runtime-endpoint unix:///run/triton/cri.sock ...\n"
           "  crictl --image-endpoint unix:///run/triton/cri.sock pull registry.example/app:1.0\n"
           "\nManual: tritoncrid(8).\n";
}

}  // namespace

Result<CriOptions> parse_cri_options(std::span<char const* const> arguments, char const* const* environment) {
    CriOptions options;
    flags::Flags const flags = make_flags(options);
    flags::Program const program{"tritoncrid", "TRITONCRID_", environment};
    auto const words = TRY(flags::parse_words(program, flags, arguments));
    if (words.wants_help) options.text = help_text(flags);
    if (words.wants_version) options.text = "tritoncrid " TRITON_VERSION "\n";
    if (options.text.empty() && !words.positional.empty())
        return fail("unexpected argument " + json::quoted(words.positional.front()));
    options.root = root_prefix(std::move(options.root));
    return options;
}

}  // namespace triton::program
