#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "config/json_schema.h"
#include "launcher/control/ctl.h"
#include "launcher/plan/check.h"
#include "launcher/rooms/upgrader.h"
#include "launcher/shell/launch.h"
#include "launcher/upgrade/compiled_filters.h"
#include "launcher/upgrade/upgrade_state.h"
#include "launcher/wrap/early.h"
#include "lib/base/error_kinds.h"
#include "lib/base/write_all.h"
#include "lib/log/termination_message.h"
#include "programs/triton-launch/completion.h"
#include "programs/triton-launch/options.h"
#include "programs/triton-launch/output.h"
#include "programs/triton-launch/stage_mode.h"
#include "programs/triton-launch/wrap_main.h"

namespace {

using namespace triton;
using namespace triton::launcher;
using namespace triton::program;

constexpr int usage_error = row_of(ErrorKind::invalid).exit_code;
constexpr int failure = row_of(ErrorKind::internal).exit_code;

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
            if (!state) return complain(state.error().text(), failure);
            UpgradeCheck const checked = check_upgrade(*state, command.launch, envp);
            if (!checked.filters.empty()) leave_compiled_filters(checked.filters);
            return print(checked.output, checked.exit_code);
        }
        case Command::Kind::stage: return run_stage(command.stage, envp);
        case Command::Kind::launch: {
            auto const code = launch(command.launch, envp);
            if (code) return *code;
            std::string const why = code.error().error.text();
            log::leave_termination_message(command.launch.log.termination_path, why + "\n");
            return complain(why, code.error().exit_code);
        }
    }
    std::unreachable();
}

}  // namespace

int main(int argc, char** argv, char** envp) try {
    if (early.wrap_failed) return report_wrap_failure(early.outcome, early.options, argv[early.options.command]);
    WrapOptions wrap_options{};
    WrapParsed const parsed = parse_wrap(argc, argv, envp, wrap_options);
    if (parsed.result != WrapParse::not_wrap) return wrap_main(parsed, wrap_options, argc, argv, envp);
    if (argc > 1 && std::string_view(argv[1]) == "ctl") return ctl_main(argc, argv, envp);
    Result<Command> command = parse_command_line(argc, argv);
    if (!command) {
        // As PID 1 we are what the container was to run, and not a command beside it.
        if (::getpid() == 1)
            log::leave_termination_message(log::default_termination_path, command.error().text() + "\n");
        return complain(command.error().text(), usage_error);
    }
    command->launch.arguments = argv;
    return run(*command, envp);
} catch (std::exception const& error) {
    return complain(error.what(), failure);
}
