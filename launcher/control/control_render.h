#pragma once

#include <span>
#include <string_view>

#include "launcher/control/control_backend.h"
#include "launcher/control/json_writer.h"

namespace triton::launcher {

/// What the backend says, as the types of org.tritonlaunch.Launcher.varlink. Absent values are left out.

/// A Program up to and with the opening bracket of its processes; the caller adds them and closes both.
void open_program(JsonWriter& out, ProgramStatus const& program);
void write_process(JsonWriter& out, ProcessStatus const& process, ProcessUsage const& usage);
void write_description(JsonWriter& out, ProgramDescription const& description);
void write_launcher(JsonWriter& out, LauncherStatus const& launcher, std::span<std::string const> programs);
/// The parameters of an answer of WatchConfiguration.
void write_configuration(JsonWriter& out, ActiveConfiguration const& configuration);
/// The parameters of an answer of Stage, of about `limit` bytes at most: what does not fit is counted.
void write_staging(JsonWriter& out, StagingAnswer const& answer, std::size_t limit);
void write_probe(JsonWriter& out, ProbeRequest const& request);
void write_line(JsonWriter& out, OutputLine const& line);

}  // namespace triton::launcher
