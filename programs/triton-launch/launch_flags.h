#pragma once

#include <cstdint>
#include <string>

#include "launcher/plan/check.h"
#include "launcher/plan/launch_options.h"
#include "programs/triton-launch/flags.h"

namespace triton::program {

enum class Mode : std::uint8_t { launch, init, sidecar };

Flag mode_flag(Mode& mode);
Flag control_socket_flag(launcher::LaunchOptions& options);
void add_log_flags(Flags& flags, log::Log::Settings& settings);

/// Where the version of this container comes from.
struct ContainerVersion {
    std::string given;
    std::string file = "/var/fdb/version";  ///< when none is given
};

/// What launch mode and check share.
void add_source_flags(Flags& flags, launcher::SourceOptions& source, ContainerVersion& version);
/// The version without the blanks around it. Errors: neither is there, or the file is empty.
Result<> resolve_container_version(launcher::SourceOptions& source, ContainerVersion const& version);

/// Launch mode; the configuration is `name` in `directory`.
void add_launch_flags(Flags& flags, launcher::LaunchOptions& options, std::string& directory, std::string& name,
                      Mode& mode);
/// `process_number`: 0 for all.
void add_check_flags(Flags& flags, launcher::CheckOptions& options, std::uint32_t& process_number);

}  // namespace triton::program
