#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/control_backend.h"
#include "launcher/control/control_wait.h"
#include "lib/json/writer.h"
#include "lib/varlink/server.h"

namespace triton::launcher {

/// Shared by the methods and their jobs. Lives as long as the server.
struct ControlContext {
    varlink::Server* server = nullptr;  // null only while the server is being made
    ControlBackend& backend;
    std::size_t line_bytes;                   // of kept output that one client is still to be sent
    std::uint64_t changes = 1;                // of the launcher's state
    std::uint64_t configuration_changes = 1;  // of the active configuration

    /// The program and process that a call names; else nullopt, and the call has been answered by an error.
    std::optional<ProcessSelection> select(varlink::Session& session, std::string_view program,
                                           std::optional<std::uint32_t> process) const;
    void no_such_process(varlink::Session& session, std::string_view program, std::uint32_t number) const;
};

/// Whether it is a number that the program has no more, of which nothing is left that runs.
bool is_left_over(ProgramStatus const& program, ProcessStatus const& process);

enum class JobTag : std::uint8_t { list, wait, logs, subscribe, follow, reload, upgrade, stage, configuration, probes };

/// A job that its tag distinguishes from the others.
template <JobTag Tag>
class TaggedJob : public varlink::Job {
public:
    static constexpr auto tag = static_cast<std::uint8_t>(Tag);
    TaggedJob() : Job(tag) {}
};

/// A list that is written a few processes a round. With "more" each part is sent, else it grows until it is whole.
class ListJob : public TaggedJob<JobTag::list> {
public:
    ListJob(ControlContext& context, std::optional<std::string> program, std::optional<std::uint32_t> process,
            bool has_history)
        : context_(context), program_(std::move(program)), process_(process), has_history_(has_history) {}
    [[nodiscard]] bool is_due() const override { return true; }
    [[nodiscard]] bool is_answering() const override { return true; }
    void run(varlink::Session& session) override;

private:
    bool write_next();
    bool open_next_program();
    [[nodiscard]] std::optional<std::size_t> next_program() const;

    ControlContext& context_;
    std::optional<std::string> program_;    // nullopt: all
    std::optional<std::uint32_t> process_;  // nullopt: all
    bool has_history_;                      // ends and results of checks, too
    std::optional<std::string> name_;       // of the current program; nullopt: before the first one
    std::size_t index_ = 0;                 // where it was last
    std::uint32_t next_ = 1;                // its next process
    bool is_whole_ = false;                 // it has been written
    bool is_begun_ = false;                 // the text has its head
    bool is_open_ = false;                  // the current program has its head
    json::Writer text_;
};

/// Goes on from where it stood, so that a wait costs each process once, and a change that does not concern it next to
/// nothing.
class WaitJob : public TaggedJob<JobTag::wait> {
public:
    /// `starts_before`: for `started` and `restarted`, ProcessStatus::starts of process 1 and so on, or of the one.
    WaitJob(ControlContext& context, std::string program, std::optional<std::uint32_t> process, WaitFor what,
            std::vector<std::uint32_t> starts_before = {})
        : context_(context),
          program_(std::move(program)),
          process_(process),
          what_(what),
          next_(process.value_or(1)),
          starts_before_(std::move(starts_before)) {}
    [[nodiscard]] bool is_due() const override { return seen_ != context_.changes; }
    void run(varlink::Session& session) override;

private:
    void look_at_processes(varlink::Session& session, std::size_t program, std::uint32_t last);
    bool is_held_up(varlink::Session& session, std::size_t program);
    bool has_leftovers(varlink::Session& session, std::size_t program);
    void not_reached(varlink::Session& session, ProcessStatus const& process);

    ControlContext& context_;
    std::string program_;
    std::optional<std::uint32_t> process_;
    WaitFor what_;
    bool makes_one_run_ = false;  // a command for a scheduled program: in one of its places
    bool has_run_ = false;        // and that has been seen
    std::uint32_t next_;          // processes before it were where they are waited for
    std::vector<std::uint32_t> starts_before_;
    std::uint64_t seen_ = 0;  // of the changes
};

/// Kept lines that are answered a part at a time. With `follows`, those that come meanwhile wait behind them, and a
/// FollowJob comes after it.
class LogsJob : public TaggedJob<JobTag::logs>, public OutputLineSink {
public:
    LogsJob(ControlContext& context, std::string program, std::optional<std::uint32_t> process, std::uint32_t wanted,
            std::optional<std::uint64_t> after, bool follows)
        : context_(context),
          program_(std::move(program)),
          process_(process),
          wanted_(wanted),
          after_(after),
          follows_(follows) {}
    [[nodiscard]] bool is_due() const override { return true; }
    [[nodiscard]] bool is_answering() const override { return true; }
    [[nodiscard]] bool may_tell_lost() const override { return false; }  // older lines come first
    void run(varlink::Session& session) override;

    /// Takes the newest lines, newest first, until there are as many as were asked for, or the one after which they
    /// were asked for comes. The pieces of a line count once.
    bool take(OutputLine const& line) override;
    /// After them: whether some of the requested lines are no longer there.
    void compare(ControlBackend::KeptLines const& kept);
    /// All have been taken. `room`: of the one answer without "more", in which the oldest have no place; 0: there are
    /// several.
    void begin(std::size_t room);

    /// A line that comes while the older ones are being answered. Returns whether there was room.
    bool add_later(OutputLine const& line);
    [[nodiscard]] bool follows() const { return follows_; }
    [[nodiscard]] bool concerns(std::string_view program, std::uint32_t process) const;

private:
    struct Line {
        std::uint32_t process = 0;
        bool is_stderr = false;
        std::int64_t time = 0;
        std::size_t begin = 0;  // in text_
        std::size_t size = 0;
        std::uint64_t sequence = 0;
        bool is_partial = false;
    };
    void add(OutputLine const& line);
    [[nodiscard]] OutputLine at(std::size_t index) const;
    [[nodiscard]] std::size_t first_that_fits(std::size_t room) const;

    ControlContext& context_;
    std::string program_;
    std::optional<std::uint32_t> process_;
    std::uint32_t wanted_;
    std::optional<std::uint64_t> after_;
    bool follows_;
    std::uint32_t whole_ = 0;  // taken lines
    bool is_cut_ = false;      // there were more lines than were asked for
    std::uint64_t end_ = 0;    // as KeptLines has it
    bool is_missing_ = false;  // lines after after_, which was not reported yet
    std::string text_;
    std::vector<Line> lines_;  // and pieces, oldest first, once all have been found
    std::size_t next_ = 0;     // of them
};

class FollowJob : public TaggedJob<JobTag::follow> {
public:
    FollowJob(std::string program, std::optional<std::uint32_t> process)
        : program_(std::move(program)), process_(process) {}
    void write_lost_members(json::Writer& out) const override { out.key("lines").open('[').close(']'); }
    [[nodiscard]] bool concerns(std::string_view program, std::uint32_t process) const {
        return program_ == program && (!process_ || *process_ == process);
    }

private:
    std::string program_;
    std::optional<std::uint32_t> process_;
};

/// The active configuration, once or again at each change: of several changes the last one, as soon as the watcher has
/// taken what came before.
class ConfigurationJob : public TaggedJob<JobTag::configuration> {
public:
    explicit ConfigurationJob(ControlContext& context) : context_(context) {}
    [[nodiscard]] bool is_due() const override { return seen_ != context_.configuration_changes; }
    void run(varlink::Session& session) override;

private:
    ControlContext& context_;
    std::uint64_t seen_ = 0;  // of the changes
};

class SubscribeJob : public TaggedJob<JobTag::subscribe> {
public:
    explicit SubscribeJob(bool takes) : takes_kept(takes) {}
    bool const takes_kept;  // our agent's, for whom records are kept while it is not there
};
class ReloadJob : public TaggedJob<JobTag::reload> {};
class UpgradeJob : public TaggedJob<JobTag::upgrade> {};
class ProbesJob : public TaggedJob<JobTag::probes> {};
class StageJob : public TaggedJob<JobTag::stage> {
public:
    explicit StageJob(std::uint64_t its_ticket) : ticket(its_ticket) {}
    std::uint64_t const ticket;
};

}  // namespace triton::launcher
