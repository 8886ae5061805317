#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "config/json_schema.h"
#include "launcher/check.h"
#include "launcher/completion.h"
#include "launcher/early.h"
#include "launcher/launch.h"
#include "launcher/options.h"
#include "launcher/wrap_main.h"

namespace {

using namespace triton;
using namespace triton::launcher;

constexpr int usage_error = 2;

/// All of it, or nothing more once the reader has gone.
bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        ssize_t const size = ::write(fd, text.data(), text.size());
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

int complain(std::string_view text, int exit_code) {
    (void)write_all(STDERR_FILENO, "triton-launch: " + std::string(text) + "\n");  // nobody else to tell
    return exit_code;
}

/// What is asked for and cannot be written is a failure: a script must not take half of it for all.
int print(std::string_view text, int exit_code = 0) {
    if (write_all(STDOUT_FILENO, text)) return exit_code;
    return complain("cannot write to standard output: " + errno_text(errno), 1);
}

int run(Command const& command, char** envp) {
    switch (command.kind) {
        case Command::Kind::print: return print(command.text);
        case Command::Kind::schema: return print(config::json_schema());
        case Command::Kind::completion: return print(completion_script(command.shell));
        case Command::Kind::check: {
            CheckResult const result = check(command.check, envp);
            (void)write_all(STDERR_FILENO, result.errors);
            return print(result.output, result.exit_code);
        }
        case Command::Kind::launch: {
            Result<int> const code = launch(command.launch, envp);
            return code ? *code : complain(code.error().text, 1);
        }
    }
    std::unreachable();
}

}  // namespace

int main(int argc, char** argv, char** envp) try {
    if (early.wrap_failed) return report_wrap_failure(early.outcome, early.options.flavor, argv[early.options.command]);
    WrapOptions wrap_options{};
    WrapParsed const parsed = parse_wrap(argc, argv, envp, wrap_options);
    if (parsed.result != WrapParse::not_wrap) return wrap_main(parsed, wrap_options, argc, argv, envp);
    Result<Command> const command = parse_command_line(argc, argv);
    if (!command) return complain(command.error().text, usage_error);
    return run(*command, envp);
} catch (std::exception const& error) {
    return complain(error.what(), 1);
}
