// imgadm: the command of the library host/image.

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/default_signals.h"
#include "lib/base/new_calls.h"
#include "lib/base/standard_descriptors.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "programs/imgadm/command_line.h"

namespace {

using triton::program::ExitCode;
using triton::program::Failure;

/// Returns a descriptor that is readable when the user wants to stop. The work then stops at the next safe place.
triton::UniqueFd catch_interrupts() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGHUP);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    return triton::UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// Whether a line asks for JSON, even one that could not be read or whose words a command has taken.
bool asks_for_json(std::vector<std::string> const& words) {
    return std::ranges::any_of(words, [](std::string const& word) { return word == "-E" || word == "--json-errors"; });
}

int report(Failure const& failure, bool is_json) {
    (void)triton::write_all(STDERR_FILENO, render_failure(failure, is_json));  // nobody else to tell
    return static_cast<int>(failure.exit);
}

}  // namespace

int main(int argc, char** argv) {
    triton::reserve_missing_standard_descriptors();
    triton::take_default_signals();
    ::signal(SIGPIPE, SIG_IGN);   // a reader that has gone is an error of write(2)
    ::umask(::umask(022) | 022);  // nobody else may write what root will trust
    std::vector<std::string> const words(argv + 1, argv + argc);
    auto const line = triton::program::parse_command_line(words);
    if (!line) return report(line.error(), asks_for_json(words));
    if (!line->run) {
        auto const printed = triton::program::Context::print(line->text);
        return printed ? 0 : report(triton::program::failure_of(printed.error()), asks_for_json(words));
    }
    if (auto const prepared = triton::prepare_host_program(triton::NeededCalls::files); !prepared)
        return report(triton::program::failure_of(prepared.error()), asks_for_json(words));
    triton::UniqueFd const interrupts = catch_interrupts();
    triton::program::Context context(line->options, interrupts.get());
    auto const outcome = line->run(context);
    context.end_progress();
    if (outcome) return static_cast<int>(ExitCode::ok);
    Failure failure = outcome.error();
    if (context.is_cancelled() && failure.exit != ExitCode::interrupted) {
        failure.exit = ExitCode::interrupted;
        failure.code = "Interrupted";
        if (context.keeps_downloads())
            failure.error.details.emplace_back("Downloads are kept; the same command continues from there.");
    }
    return report(failure, line->options.has_json_errors || asks_for_json(words));
}
