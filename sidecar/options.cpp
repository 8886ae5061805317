#include "sidecar/options.h"

#include <algorithm>
#include <array>

namespace triton::sidecar {

namespace {

using Apply = std::function<Result<>(std::string const&)>;

Apply into(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text.empty()) return fail("must not be empty");
        target = text;
        return {};
    };
}

/// May be empty: pod specs fill it from a field that may be.
Apply into_any(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        target = text;
        return {};
    };
}

Apply append_to(std::vector<std::string>& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text.empty()) return fail("must not be empty");
        target.push_back(text);
        return {};
    };
}

Apply into_switch(bool& target) {
    return [&target](std::string const& text) -> Result<> {
        constexpr std::array<std::string_view, 4> yes{"true", "1", "yes", "on"};
        constexpr std::array<std::string_view, 4> no{"false", "0", "no", "off"};
        target = std::ranges::find(yes, text) != yes.end();
        if (!target && std::ranges::find(no, text) == no.end())
            return fail("unknown value \"" + text + "\" (known: true false)");
        return {};
    };
}

Apply into_format(bool& as_json) {
    return [&as_json](std::string const& text) -> Result<> {
        as_json = text == "json";
        if (!as_json && text != "text") return fail("unknown value \"" + text + "\" (known: text json)");
        return {};
    };
}

}  // namespace

std::vector<StageFlag> stage_flags(StageOptions& options) {
    return {
        {"input-dir", "", 0, "DIR", "where files and templates are (default: .)", into(options.input_directory)},
        {"output-dir", "", 0, "DIR", "where everything goes; made when missing (default: .)",
         into(options.output_directory)},
        {"copy-file", "", 0, "PATH", "a file of the input directory; lands under its base name (may be repeated)",
         append_to(options.files)},
        {"copy-template", "", 0, "PATH", "the same, with ${NAME} and ${{ARGUMENT}} substituted (may be repeated)",
         append_to(options.templates)},
        {"copy-binary", "", 0, "NAME", "a program of the binary directory (may be repeated)",
         append_to(options.binaries)},
        {"copy-library", "", 0, "VERSION", "a client library, as libfdb_c_VERSION.so (may be repeated)",
         append_to(options.libraries)},
        {"copy-primary-library", "", 0, "VERSION", "the client library that becomes libfdb_c.so",
         into_any(options.primary_library)},
        {"require-not-empty", "", 0, "PATH", "of the files: this one must not be empty (may be repeated)",
         append_to(options.require_not_empty)},
        {"binary-dir", "", 0, "DIR", "where binaries are (default: /usr/bin)", into(options.binary_directory)},
        {"library-dir", "", 0, "DIR", "where libraries are (default: /usr/lib/fdb/multiversion)",
         into(options.library_directory)},
        {"binary-output-dir", "", 0, "DIR",
         "in the output directory, for binaries (default: sidecar bin/VERSION, init MAJOR.MINOR)",
         into_any(options.binary_output_directory)},
        {"version-file", "", 0, "FILE", "holds this container's version (default: /var/fdb/version)",
         into(options.version_file)},
        {"main-container-version", "", 0, "VERSION", "sidecar: when this container has the same, nothing is copied",
         into_any(options.main_container_version)},
        {"input-monitor-conf", "", 0, "PATH", "an fdbmonitor.conf with $NAME; becomes OUTPUT/fdbmonitor.conf",
         into_any(options.monitor_conf)},
        {"substitute-variable", "", 0, "NAME", "a further $NAME in it (may be repeated)",
         append_to(options.substitute_variables)},
        {"main-container-conf-dir", "", 0, "DIR",
         "the output directory as the main container sees it, for $BINARY_DIR (default: /var/dynamic-conf)",
         into(options.main_container_conf_directory)},
        {"additional-env-file", "", 0, "FILE", "name=value lines for substitution, before the environment",
         into_any(options.environment_file)},
        {"watch", "", 0, "", "sidecar: copy again whenever a source changes", into_switch(options.watch)},
        {"format", "", 0, "FORMAT", "text (default), or json: a summary with sizes and SHA-256",
         into_format(options.as_json)},
    };
}

}  // namespace triton::sidecar
