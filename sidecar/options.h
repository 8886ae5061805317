#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/ip_list.h"

namespace triton::sidecar {

enum class StageMode : std::uint8_t {
    init,     ///< copies and ends
    sidecar,  ///< copies, unless the main container has this version itself, and waits for SIGTERM
};

/// What sidecar mode leaves out when the main container has this container's version itself.
enum class SameVersion : std::uint8_t {
    skips_all,       ///< as fdb-kubernetes-monitor: the sidecar is there for binaries alone
    skips_binaries,  ///< as sidecar.py, whose clients wait until every other file is as they want it
};

/// What to stage, as the command line has it. Nothing here is checked yet; plan() does that.
struct StageOptions {
    StageMode mode = StageMode::init;
    std::string input_directory = ".";           ///< of files, templates and the monitor conf
    std::string output_directory = ".";          ///< made when it is not there
    std::vector<std::string> files;              ///< paths in the input directory; each lands under its base name
    std::vector<std::string> templates;          ///< the same, substituted: see substitute.h
    std::vector<std::string> binaries;           ///< names in the binary directory
    std::vector<std::string> libraries;          ///< versions: libfdb_c_VERSION.so
    std::string primary_library;                 ///< the version that lands as libfdb_c.so; empty: none
    std::vector<std::string> require_not_empty;  ///< of the files and templates
    std::string binary_directory = "/usr/bin";
    std::string library_directory = "/usr/lib/fdb/multiversion";
    std::string binary_output_directory;            ///< in the output directory; empty: by mode and version
    std::string version_file = "/var/fdb/version";  ///< holds the version of this container
    std::string main_container_version;             ///< of the container that the files are for; empty: unknown
    SameVersion same_version = SameVersion::skips_all;
    std::string monitor_conf;                       ///< an fdbmonitor.conf with $NAME; empty: none
    std::vector<std::string> substitute_variables;  ///< further NAMEs in it
    std::optional<config::IpFamily>
        public_ip_family;  ///< of $FDB_PUBLIC_IP and $FDB_POD_IP in it, which are lists then
    std::string main_container_conf_directory = "/var/dynamic-conf";  ///< our output directory, seen from there
    std::string environment_file;                                     ///< values for substitution; empty: none
    bool watch = false;                                               ///< sidecar: copy again when a source changes
    bool as_json = false;                                             ///< a summary with hashes
    bool is_once = false;                                             ///< sidecar: end after the first round
};

}  // namespace triton::sidecar
