#include "programs/triton-launch/stage_flags.h"

#include <array>

namespace triton::program {

namespace {

constexpr std::array<Choice<bool>, 2> stage_formats{{{"text", false}, {"json", true}}};
constexpr std::array<Choice<std::optional<config::IpFamily>>, 2> ip_families{
    {{"4", config::IpFamily::v4}, {"6", config::IpFamily::v6}}};

}  // namespace

void add_stage_flags(Flags& flags, StageCommand& command, Mode& mode) {
    sidecar::StageOptions& options = command.options;
    Flag rows[] = {
        mode_flag(mode),
        {"input-dir", "", 0, "DIR", "where files and templates are (default: .)", into(options.input_directory)},
        {"output-dir", "", 0, "DIR", "where everything goes; created if missing (default: .)",
         into(options.output_directory)},
        {"copy-file", "", 0, "PATH", "a file of the input directory, copied under its base name (may be repeated)",
         append_to(options.files)},
        {"copy-template", "", 0, "PATH", "the same, with ${NAME} and ${{ARGUMENT}} substituted (may be repeated)",
         append_to(options.templates)},
        {"copy-binary", "", 0, "NAME", "a program of the binary directory (may be repeated)",
         append_to(options.binaries)},
        {"copy-library", "", 0, "VERSION", "a client library, as libfdb_c_VERSION.so (may be repeated)",
         append_to(options.libraries)},
        {"copy-primary-library", "", 0, "VERSION", "the client library that becomes libfdb_c.so",
         into_any(options.primary_library)},
        {"require-not-empty", "", 0, "PATH", "a file or template that must not be empty (may be repeated)",
         append_to(options.require_not_empty)},
        {"binary-dir", "", 0, "DIR", "where binaries are (default: /usr/bin)", into(options.binary_directory)},
        {"library-dir", "", 0, "DIR", "where libraries are (default: /usr/lib/fdb/multiversion)",
         into(options.library_directory)},
        {"binary-output-dir", "", 0, "DIR",
         "where binaries go in the output directory (default: sidecar bin/VERSION, init MAJOR.MINOR)",
         into_any(options.binary_output_directory)},
        {"version-file", "", 0, "FILE", "holds this container's version (default: /var/fdb/version)",
         into(options.version_file)},
        {"main-container-version", "", 0, "VERSION",
         "sidecar: if equal to this container's, copy no binaries, and without --listen nothing",
         into_any(options.main_container_version)},
        {"input-monitor-conf", "", 0, "PATH",
         "a template with $NAME that becomes fdbmonitor.conf in the output directory", into_any(options.monitor_conf)},
        {"substitute-variable", "", 0, "NAME", "a further $NAME in it (may be repeated)",
         append_to(options.substitute_variables)},
        {"public-ip-family", "", 0, "4|6", "take the first address of this family from $FDB_PUBLIC_IP and $FDB_POD_IP",
         into_choice(options.public_ip_family, ip_families)},
        {"main-container-conf-dir", "", 0, "DIR",
         "the output directory as the main container sees it, for $BINARY_DIR (default: /var/dynamic-conf)",
         into(options.main_container_conf_directory)},
        {"additional-env-file", "", 0, "FILE", "name=value lines for substitution, looked up before the environment",
         into_any(options.environment_file)},
        {"watch", "", 0, "", "sidecar: copy again whenever a source changes", into_switch(options.watch)},
        {"format", "", 0, "FORMAT", "text (default) or json: a summary with sizes and SHA-256",
         into_choice(options.as_json, stage_formats)},
    };
    add(flags, rows);
    add_log_flags(flags, command.log);
}

void add_stage_control_flags(Flags& flags, launcher::LaunchOptions& options) {
    flags.push_back(control_socket_flag(options));
}

}  // namespace triton::program
