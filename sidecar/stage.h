#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "sidecar/options.h"

namespace triton::sidecar {

/// Tells when one of some paths may lead to something else.
class ChangeWatch {
public:
    virtual ~ChangeWatch() = default;
    /// Borrowed; readable when there may be something to see.
    [[nodiscard]] virtual int fd() const = 0;
    /// Watches for these paths from now on, as the file system is now.
    virtual Result<> watch(std::vector<std::string> const& paths) = 0;
    /// Takes all events there are. Returns whether one of them concerns a path.
    virtual bool take_events() = 0;
};

enum class StageLevel : std::uint8_t { info, error };

/// What staging has around it. Functions that are not set are not called.
struct StageSurroundings {
    char const* const* environment = nullptr;  ///< as execve(2) takes it
    /// --format json: one line for each round. A reader that takes nothing is waited for while `keep_going` says so.
    std::function<void(std::string_view line, std::function<bool()> const& keep_going)> print;
    /// Events: file-copied, file-reused, staging-skipped, staging-failed, watch-failed, stop-requested.
    std::function<void(StageLevel level, std::string_view event, std::string_view message)> log;
    /// Sidecar mode: the first round has gone well.
    std::function<void()> staged;
    /// SIGHUP, in sidecar mode; a round follows.
    std::function<void()> hang_up;
    /// For a terminal: text with its own carriage returns.
    std::function<void(std::string_view text)> progress;
    /// Needed for --watch.
    std::function<Result<std::unique_ptr<ChangeWatch>>()> make_watch;
};

/// The version that a file holds, without blanks around it. Errors: it cannot be read, or is empty.
Result<std::string> read_version(std::string const& path);

/// Runs mode init or sidecar to its end.
///
/// Everything is checked before anything is copied, and all errors are reported at once. Then the files are copied
/// in the order of the plan up to the first that fails; those before it stay. See prepare_copy() for what a copy is.
/// Files are made durable together, up to 2048 of them or 16 MiB, and only then get their names, one after the other:
/// each is durable before it is seen. The soft limit of open files (RLIMIT_NOFILE) is raised for that permanently.
/// In sidecar mode SIGHUP begins a further round, and with --watch every change of a source does. A round that fails
/// then is reported, and waits for the next one: earlier copies stay valid.
///
/// SIGTERM, SIGINT and SIGQUIT stay blocked after the call, and end it between two pieces of a copy.
/// Sidecar mode ignores SIGCHLD from the call on, so that orphans (of `kubectl exec`) leave no zombies.
/// The caller must ignore SIGPIPE and SIGXFSZ: a failed write is reported as an error.
/// Returns the exit code: 0; 1 when something is wrong; in init mode 128 + n when signal n ended it too early, in
/// sidecar mode 0 then.
int stage(StageOptions const& options, StageSurroundings const& around);

}  // namespace triton::sidecar
