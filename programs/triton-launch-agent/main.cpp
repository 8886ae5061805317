#include <csignal>
#include <exception>
#include <string>
#include <string_view>

#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/error_kinds.h"
#include "lib/base/new_calls.h"
#include "programs/triton-launch-agent/command_line.h"
#include "sidecar/agent/agent.h"
#include "sidecar/agent/line_pattern.h"

namespace {

using namespace triton;

constexpr int usage_error = row_of(ErrorKind::invalid).exit_code;
constexpr int failure = row_of(ErrorKind::internal).exit_code;

int say(int fd, std::string const& text, int exit_code) {
    return ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? exit_code : failure;
}

int complain(std::string_view text, int exit_code) {
    return say(STDERR_FILENO, "triton-launch-agent: " + std::string(text) + "\n", exit_code);
}

/// Checks patterns for the launcher, which has no regular expressions. Exit code 0 when all are good, else 1 and what
/// is wrong.
int check_pattern(int count, char const* const* patterns) {
    if (count > 0 && std::string_view(patterns[0]) == "--") {
        --count;
        ++patterns;
    }
    if (count == 0) return complain("check-pattern: PATTERN is missing", usage_error);
    std::string const faults = agent::check_patterns(count, patterns);
    return say(STDOUT_FILENO, faults, faults.starts_with("checked") ? 0 : 1);
}

int run(int argc, char** argv, char** envp) {
    if (argc > 1 && std::string_view(argv[1]) == "check-pattern") return check_pattern(argc - 2, argv + 2);
    auto line = program::parse_agent_command_line(argc, argv, envp);
    if (!line) return complain(line.error().text(), usage_error);
    if (!line->text.empty()) return say(STDOUT_FILENO, line->text, 0);
    auto handed = agent::take_handed_over();
    if (!handed) return complain(handed.error().text(), failure);
    // Sets the name of the process: we were executed by a descriptor, so its number would be the name.
    (void)::prctl(PR_SET_NAME, "triton-launch-agent");
    (void)::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of its connection
    // Comes before the first thread.
    if (auto const can = let_libc_clone(); !can) return complain(can.error().text(), failure);
    auto const code = agent::run_agent(std::move(line->options), std::move(*handed), envp);
    return code ? *code : complain(code.error().text(), failure);
}

}  // namespace

int main(int argc, char** argv, char** envp) {
    try {
        ::_exit(run(argc, argv, envp));  // see agent::run_agent()
    } catch (std::exception const& error) {
        return complain(error.what(), failure);
    }
}
