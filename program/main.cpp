#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "base/write_all.h"
#include "config/json_schema.h"
#include "launcher/check.h"
#include "launcher/control/ctl.h"
#include "launcher/early.h"
#include "launcher/launch.h"
#include "launcher/shell.h"
#include "launcher/upgrade_state.h"
#include "program/completion.h"
#include "program/options.h"
#include "program/output.h"
#include "program/stage_mode.h"
#include "program/wrap_main.h"

namespace {

using namespace triton;
using namespace triton::launcher;
using namespace triton::program;

constexpr int usage_error = 2;

int run(Command const& command, char** envp) {
    switch (command.kind) {
        case Command::Kind::print: return print(command.text);
        case Command::Kind::schema: return print(config::json_schema());
        case Command::Kind::reference: return print(config::reference_markdown());
        case Command::Kind::completion: return print(completion_script(command.shell));
        case Command::Kind::check: {
            CheckResult const result = check(command.check, envp);
            (void)write_all(STDERR_FILENO, result.errors);
            return print(result.output, result.exit_code);
        }
        case Command::Kind::upgrade_check: {
            Result<std::string> const state = read_sealed(STDIN_FILENO);
            if (!state) return complain(state.error().text, 1);
            UpgradeCheck const checked = check_upgrade(*state, command.launch, envp);
            return print(checked.output, checked.exit_code);
        }
        case Command::Kind::stage: return run_stage(command.stage, envp);
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
    if (argc > 1 && std::string_view(argv[1]) == "ctl") return ctl_main(argc, argv, envp);
    Result<Command> command = parse_command_line(argc, argv);
    if (!command) return complain(command.error().text, usage_error);
    command->launch.arguments = argv;
    return run(*command, envp);
} catch (std::exception const& error) {
    return complain(error.what(), 1);
}
