#pragma once

#include <span>
#include <string_view>

#include "launcher/control/control_backend.h"
#include "lib/json/writer.h"

namespace triton::launcher {

/// The backend's data as the types of org.tritonlaunch.Launcher.varlink. Absent values are left out.

/// A Program up to and with the opening bracket of its processes; the caller adds them and closes both.
void open_program(json::Writer& out, ProgramStatus const& program);
/// `past`: null: it was not asked for.
void write_process(json::Writer& out, ProcessStatus const& process, ProcessUsage const& usage,
                   ProcessPast const* past = nullptr);
void write_description(json::Writer& out, ProgramDescription const& description);
void write_launcher(json::Writer& out, LauncherStatus const& launcher, std::span<std::string const> programs);
/// The parameters of an answer of WatchConfiguration.
void write_configuration(json::Writer& out, ActiveConfiguration const& configuration);
/// The parameters of an answer of Stage, of about `limit` bytes at most: the rest is counted.
void write_staging(json::Writer& out, StagingAnswer const& answer, std::size_t limit);
void write_probe(json::Writer& out, ProbeRequest const& request);
void write_line(json::Writer& out, OutputLine const& line);

}  // namespace triton::launcher
