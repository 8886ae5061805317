#include "launcher/rooms/helper_commands.h"

#include <cerrno>
#include <string>
#include <utility>

#include "lib/base/signal_text.h"

namespace triton::launcher {

using process::CommandRunner;

namespace {

Children::Key key_of(ProcessId id, Helper helper) {
    return static_cast<Children::Key>(id.program) << 32 | static_cast<Children::Key>(id.number) << 8 |
           static_cast<Children::Key>(helper);
}
Helper helper_of(Children::Key key) { return static_cast<Helper>(key & 0xff); }

std::string_view text(Helper helper) {
    switch (helper) {
        case Helper::pre_stop: return "preStop";
        case Helper::on_failure: return "onFailure";
        case Helper::readiness: return "readiness";
        case Helper::health: return "health";
    }
    std::unreachable();
}

bool is_probe(Helper helper) { return helper == Helper::readiness || helper == Helper::health; }

std::string outcome_text(Children::Outcome const& outcome) {
    switch (outcome.how) {
        case CommandRunner::How::exited: return "exit code " + std::to_string(outcome.code);
        case CommandRunner::How::signalled: return signal_text(outcome.code);
        case CommandRunner::How::timed_out: return "it took too long";
        case CommandRunner::How::cancelled: return "cancelled";
        case CommandRunner::How::not_started: return outcome.error.text();
    }
    std::unreachable();
}

}  // namespace

ProcessId process_of_helper(Children::Key key) {
    return {ProgramId{static_cast<std::uint32_t>(key >> 32)},
            ProcessNumber{static_cast<std::uint32_t>(key >> 8 & 0xffffff)}};
}

void HelperCommands::run(action::RunHelper const& action) {
    ProgramTable::Entry const& program = table_[action.id.program];
    HelperPlan const helper = program.plan ? program.plan->helper(action.helper) : HelperPlan{};
    Children::Key const key = key_of(action.id, action.helper);
    if (helper.network) return agent_.run_probe(key, helper, action.id.number);
    children_.run_command(key, helper.timeout, [&]() -> Result<pid_t> {
        if (!helper.start)
            return fail(ErrorKind::not_found, "run " + std::string(text(action.helper)), "the configuration has none");
        auto const files = TRY(channels_.for_command(action.id, is_probe(action.helper)));
        return children_.spawn_command(helper.start, action.id.number, files);
    });
}

void HelperCommands::cancel(action::CancelHelper const& action) {
    Children::Key const key = key_of(action.id, action.helper);
    if (!agent_.cancel_probe(key)) children_.cancel_command(key);
}

void HelperCommands::ended(Children::Key key, Children::Outcome const& outcome) {
    ProcessId const id = process_of_helper(key);
    Helper const helper = helper_of(key);
    events_.dispatch(event::HelperEnded{id, helper, outcome.is_ok()});
    if (outcome.is_ok() || outcome.how == CommandRunner::How::cancelled) return;
    // A readiness probe fails until it is ready; that of the health is told when it matters.
    log::LogLevel const level = is_probe(helper) ? log::LogLevel::debug : log::LogLevel::warning;
    if (!log_.is_enabled(level)) return;
    std::string const why = outcome_text(outcome);
    log_.write(level, "helper-failed",
               std::string(text(helper)) + " of " + report_writer_.who(id) + " has failed: " + why,
               {{"program", std::string_view(table_[id.program].name)},
                {"process", static_cast<std::int64_t>(id.number)},
                {"helper", text(helper)},
                {"error", std::string_view(why)}});
}

}  // namespace triton::launcher
