#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/control/control_server.h"
#include "launcher/output/log_ring.h"
#include "launcher/plan/configuration_source.h"
#include "launcher/supervisor/supervisor.h"

namespace triton::launcher {

// How the rooms of the launcher know each other. The Shell (shell.h) is the event pump: events go in,
// the Supervisor decides, and actions come out. Around it are rooms of one subject each:
//
//     ../children/sys.h       the kernel, in our words; a test has a fake
//     ../children/children.h  pids, starts, reaping, helper commands
//     channels.h              what programs are given: output, readiness, control groups, listening sockets
//     files_watch.h           files that programs have named, and the actions when they change
//     program_table.h         the data of each program; programs.h changes it when a configuration is accepted
//     helper_commands.h       hooks and probes of a process
//     document_judge.h        the helper process that checks large documents
//     configuration_keeper.h  which configuration is active, which was rejected (configuration_ledger.h), and when to
//                             look again (reload_watch.h)
//     agent_host.h            the agent, requests to it and its reports
//     pid_files.h             programs that fork into the background, and the process as which they continue
//     foreground.h            the terminal that is our input, and which process group is in its foreground
//     left_trees.h            what is left of a tree whose process has ended, while it has time to end
//     process_trees.h         a process with all that it has started: its start, whom a signal is for, what its end
//                             leaves to be killed
//     control_port.h          requests of the control socket (ControlBackend)
//     upgrader.h              becoming another version
//     log_keeper.h            the launcher's own log file, and who writes it
//     life_cycle.h            signals, the stop, the exit code, the service manager
//
// A room gets what it needs at its construction: the Supervisor to look at, the table, rooms below it in
// this list, and its own interface (`Listener`, `Owner`) or one of those here for its effects elsewhere.
// No room holds the Shell.

/// Passes events to the supervisor. Its actions may be performed after this returns.
class EventSink {
public:
    virtual ~EventSink() = default;
    virtual void dispatch(Event const& event) = 0;
};

/// The line to the clients of the control socket. Silent while no socket is served.
class ControlLine {
public:
    void connect(std::unique_ptr<ControlServer> server) { server_ = std::move(server); }
    [[nodiscard]] ControlServer* server() const { return server_.get(); }

    void state_changed() const {
        if (server_) server_->state_changed();
    }
    void configuration_changed() const {
        if (server_) server_->configuration_changed();
    }
    void adopt(UniqueFd connection, ControlRole role) const {
        if (server_) server_->adopt(std::move(connection), role);
    }
    void answer_stage(std::uint64_t ticket, Result<StagingAnswer> const& answer) const {
        if (server_) server_->answer_stage(ticket, answer);
    }
    void answer_reload(Result<> const& answer) const {
        if (server_) server_->answer_reload(answer);
    }
    void answer_upgrade(Result<UpgradeVersions> const& answer) const {
        if (server_) server_->answer_upgrade(answer);
    }
    void send_probe(ProbeRequest const& request) const {
        if (server_) server_->send_probe(request);
    }
    void cancel_probe(std::uint64_t id) const {
        if (server_) server_->cancel_probe(id);
    }
    void send_lines(std::uint64_t id, std::span<std::string_view const> lines) const {
        if (server_) server_->send_lines(id, lines);
    }
    [[nodiscard]] bool has_room_for_lines() const { return server_ && server_->has_room_for_lines(); }
    [[nodiscard]] bool has_followers() const { return server_ && server_->has_followers(); }
    void publish_output(std::string_view program, OutputLine const& line) const {
        if (server_) server_->publish_output(program, line);
    }
    [[nodiscard]] Duration agent_deaf_for() const { return server_ ? server_->agent_deaf_for() : Duration{}; }

private:
    std::unique_ptr<ControlServer> server_;
};

/// Calls `take` for each line of a text, without its newline.
template <class Take>
void for_each_line(std::string_view text, Take take) {
    while (!text.empty()) {
        std::size_t const end = text.find('\n');
        take(text.substr(0, end));
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

/// Calls `take` for each line of a chunk, the last of which may be a piece. Its text is borrowed from the chunk.
template <class Take>
void for_each_output_line(LogChunk const& chunk, Take take) {
    for_each_line(chunk.text, [&](std::string_view text) {
        take(OutputLine{.process = chunk.process,
                        .is_stderr = chunk.stream == OutputStream::err,
                        .time = chunk.microseconds,
                        .text = text,
                        .sequence = line_sequence(chunk, text),
                        .is_partial = chunk.is_partial && text.end() == chunk.text.end()});
    });
}

}  // namespace triton::launcher
