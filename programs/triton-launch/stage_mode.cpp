#include "programs/triton-launch/stage_mode.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include "launcher/services/notify.h"
#include "lib/base/path_watcher.h"
#include "lib/base/standard_descriptors.h"
#include "lib/base/write_all.h"
#include "programs/triton-launch/output.h"
#include "sidecar/stage.h"

namespace triton::program {

using namespace launcher;
using std::chrono::steady_clock;

namespace {

// Ten thousand lines are more than the log holds for its reader. Staging waits for a slow reader, but not for ever.
constexpr Duration patience_in_all = std::chrono::seconds(2);
constexpr milliseconds patience_at_the_end{500};

class Watch final : public sidecar::ChangeWatch {
public:
    explicit Watch(PathWatcher watcher) : watcher_(std::move(watcher)) {}
    [[nodiscard]] int fd() const override { return watcher_.fd(); }
    Result<> watch(std::vector<std::string> const& paths) override { return watcher_.watch(paths); }
    bool take_events() override { return watcher_.take_events(); }

private:
    PathWatcher watcher_;
};

class StageLog {
public:
    explicit StageLog(log::Log::Settings const& settings) : log_(settings), path_(settings.path) {
        if (auto const opened = log_.open_file(); !opened)
            log_.write(log::LogLevel::error, "log-open-failed", opened.error().text(),
                       {{"error", opened.error().text()}});
    }
    ~StageLog() { log_.drain(patience_at_the_end); }
    StageLog(StageLog const&) = delete;
    StageLog& operator=(StageLog const&) = delete;

    void leave_termination_message(int exit_code) const { log_.leave_termination_message(exit_code); }
    void warn(std::string_view message) { log_.write(log::LogLevel::warning, "option-warning", message); }
    void write(sidecar::StageLevel level, std::string_view event, std::string_view message) {
        log_.write(level == sidecar::StageLevel::error ? log::LogLevel::error : log::LogLevel::info, event, message);
        log_.flush();
        if (!log_.is_blocked() || patience_ <= Duration::zero()) return;
        auto const began = steady_clock::now();
        log_.drain(std::chrono::ceil<milliseconds>(patience_));
        patience_ -= steady_clock::now() - began;
    }

    void reopen() {
        auto const reopened = log_.reopen_file(true);
        if (!reopened) {
            log_.write(log::LogLevel::warning, "log-reopen-failed", reopened.error().text(),
                       {{"error", reopened.error().text()}});
        } else if (*reopened) {
            log_.write(log::LogLevel::info, "log-reopened", "log file " + path_ + " opened again", {{"path", path_}});
        }
        log_.flush();
    }

private:
    log::Log log_;
    std::string path_;
    Duration patience_ = patience_in_all;
};

bool has_nothing_to_copy(sidecar::StageOptions const& options) {
    return options.files.empty() && options.templates.empty() && options.binaries.empty() &&
           options.libraries.empty() && options.primary_library.empty() && options.monitor_conf.empty();
}

}  // namespace

int run_stage(StageCommand const& command, char const* const* environment) {
    open_missing_standard_descriptors();
    for (int const signo : {SIGPIPE, SIGXFSZ})
        (void)::signal(signo, SIG_IGN);  // the writer gets an error and reports it
    log::Log::Settings settings = command.log;
    if (command.options.as_json) settings.console = STDERR_FILENO;  // standard output is for the summary
    StageLog log(settings);
    for (std::string const& warning : command.warnings)
        log.warn(warning);
    if (has_nothing_to_copy(command.options) && !command.options.is_once)
        log.write(sidecar::StageLevel::info, "nothing-to-copy",
                  "nothing is copied: no option such as --copy-file is given");
    int print_code = 0;
    sidecar::StageSurroundings around;
    around.environment = environment;
    around.print = [&](std::string_view text, std::function<bool()> const& keep_going) {
        if (!write_while(STDOUT_FILENO, text, keep_going) && errno != EINTR) print_code = complain_of_output();
        if (!command.repeats_summary) return;
        // The round's caller is waiting, and must not wait for a reader of the launcher's output.
        auto const patience_ends = steady_clock::now() + patience_in_all;
        auto const is_patient = [&] { return keep_going() && steady_clock::now() < patience_ends; };
        if (!write_while(STDIN_FILENO, text, is_patient) && errno != EINTR) print_code = complain_of_output();
    };
    around.log = [&log](sidecar::StageLevel level, std::string_view event, std::string_view message) {
        log.write(level, event, message);
    };
    around.staged = [] { launcher::Notifier(std::getenv("NOTIFY_SOCKET")).send("READY=1\nSTATUS=staged"); };
    around.hang_up = [&log] { log.reopen(); };
    if (::isatty(STDERR_FILENO) == 1)
        around.progress = [](std::string_view text) { (void)write_all(STDERR_FILENO, text); };  // only to be seen
    around.make_watch = []() -> Result<std::unique_ptr<sidecar::ChangeWatch>> {
        return std::make_unique<Watch>(TRY(PathWatcher::create()));
    };
    int const exit_code = std::max(sidecar::stage(command.options, around), print_code);
    log.leave_termination_message(exit_code);
    return exit_code;
}

}  // namespace triton::program
