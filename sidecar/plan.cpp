#include "sidecar/plan.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "config/version.h"
#include "lib/json/text.h"

namespace triton::sidecar {

namespace {

/// Whether a name stays in its directory.
bool is_component(std::string_view text) {
    return !text.empty() && text != "." && text != ".." && text.find('/') == text.npos && text.find('\0') == text.npos;
}

/// Whether a part of a path does not lead anywhere.
bool is_idle(std::string_view part) { return part.empty() || part == "."; }

/// Whether a path is relative and made of such names; single dots and repeated slashes do no harm.
bool stays_inside(std::string_view path) {
    if (path.starts_with('/')) return false;
    for (;;) {
        std::size_t const slash = path.find('/');
        std::string_view const part = path.substr(0, slash);
        if (slash == path.npos) return is_component(part);
        if (!is_idle(part) && !is_component(part)) return false;
        path.remove_prefix(slash + 1);
    }
}

/// The same path without single dots and repeated slashes; "." itself stays.
std::string without_dots(std::string_view path) {
    std::string made;
    while (!path.empty()) {
        std::size_t const slash = path.find('/');
        std::string_view const part = path.substr(0, slash);
        path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
        if (is_idle(part)) continue;
        if (!made.empty()) made += '/';
        made += part;
    }
    return made.empty() ? "." : made;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

class Planner {
public:
    Planner(StageOptions const& options, Result<std::string> const& version) : options_(options), version_(version) {
        for (std::string const& path : options.require_not_empty)
            required_.insert(without_dots(path));
    }

    StagePlan make() && {
        compare_versions();
        add_inputs("--copy-file", options_.files, CopyKind::verbatim);
        add_inputs("--copy-template", options_.templates, CopyKind::substituted);
        check_required();
        add_monitor_conf();
        add_binaries();
        add_libraries();
        if (options_.watch && options_.mode != StageMode::sidecar)
            plan_.errors.emplace_back("--watch: only --mode sidecar stays to watch");
        check_version();
        leave_out();
        return std::move(plan_);
    }

private:
    void add(CopyKind kind, std::string source, std::string_view target, bool is_required = false) {
        PlannedCopy copy{kind, std::move(source), without_dots(target), is_required};
        if (targets_.insert(copy.target).second) {
            plan_.copies.push_back(std::move(copy));
            return;
        }
        auto const same = std::ranges::find(plan_.copies, copy.target, &PlannedCopy::target);
        if (*same == copy) return;
        plan_.errors.push_back(same->source + " and " + copy.source + " would both become " + copy.target);
        plan_.unplaced.push_back(std::move(copy.source));
    }

    /// Returns whether the value is a plain name; if not, adds an error.
    bool check_name(std::string_view flag, std::string_view name) {
        if (is_component(name)) return true;
        plan_.errors.push_back(std::string(flag) + ": " + json::shown(name) + " is not a plain name");
        return false;
    }

    bool check_path(std::string_view flag, std::string_view path) {
        if (stays_inside(path)) return true;
        plan_.errors.push_back(std::string(flag) + ": " + json::shown(path) + " is not a path inside the directory");
        return false;
    }

    void add_inputs(std::string_view flag, std::vector<std::string> const& paths, CopyKind kind) {
        for (std::string const& given : paths) {
            std::string const path = without_dots(given);
            inputs_.insert(path);
            if (check_path(flag, given))
                add(kind, path_in(options_.input_directory, path), base_name(path), required_.contains(path));
        }
    }

    void check_required() {
        for (std::string const& path : options_.require_not_empty) {
            if (!inputs_.contains(without_dots(path)))
                plan_.errors.push_back("--require-not-empty: " + json::shown(path) + " is not in --copy-file");
        }
    }

    void add_monitor_conf() {
        std::string const& path = options_.monitor_conf;
        if (!path.empty() && check_path("--input-monitor-conf", path))
            add(CopyKind::monitor_conf, path_in(options_.input_directory, without_dots(path)), "fdbmonitor.conf");
    }

    void add_binaries() {
        plan_.binary_directory = binary_directory();
        for (std::string const& name : options_.binaries) {
            if (!check_name("--copy-binary", name) || plan_.is_main_container_same) continue;
            std::string source = path_in(options_.binary_directory, name);
            if (plan_.binary_directory.empty()) {
                plan_.unplaced.push_back(std::move(source));
            } else {
                add(CopyKind::verbatim, std::move(source), path_in(plan_.binary_directory, name));
            }
        }
    }

    /// The directory of binaries. For an init container that copies none it is where the sidecar beside it puts them.
    std::string binary_directory() {
        if (!options_.binaries.empty() || !options_.binary_output_directory.empty()) return binary_output_directory();
        return version_ && is_component(*version_) ? "bin/" + *version_ : std::string();
    }

    /// Returns an empty text, and adds an error, when the directory is not known.
    std::string binary_output_directory() {
        std::string const& given = options_.binary_output_directory;
        if (given == ".") return given;
        if (!given.empty()) return check_path("--binary-output-dir", given) ? given : std::string();
        if (!version_) {
            plan_.errors.push_back("--binary-output-dir is missing, and so is this container's version: " +
                                   version_.error().text());
            return {};
        }
        // Unchanged, because launch mode looks for exactly the text in its configuration.
        if (options_.mode == StageMode::sidecar)
            return check_name("this container's version", *version_) ? "bin/" + *version_ : std::string();
        auto const parsed = config::Version::parse(*version_);
        if (!parsed) {
            plan_.errors.push_back("this container's version: could not parse FDB version from " +
                                   json::shown(*version_));
            return {};
        }
        return std::to_string(parsed->major_number) + "." + std::to_string(parsed->minor_number);
    }

    void add_libraries() {
        std::string const& primary = options_.primary_library;
        if (!primary.empty()) add_library("--copy-primary-library", primary, "libfdb_c.so");
        for (std::string const& version : options_.libraries) {
            if (version != primary) add_library("--copy-library", version, "libfdb_c_" + version + ".so");
        }
    }

    void add_library(std::string_view flag, std::string const& version, std::string_view target) {
        if (!check_name(flag, version)) return;
        add(CopyKind::verbatim, path_in(options_.library_directory, "libfdb_c_" + version + ".so"), target);
    }

    /// Only in sidecar mode: an init container prepares for other programs than the main container's.
    [[nodiscard]] bool compares_versions() const {
        return options_.mode == StageMode::sidecar && !options_.main_container_version.empty();
    }

    void compare_versions() {
        plan_.is_main_container_same = compares_versions() && version_ && *version_ == options_.main_container_version;
    }

    void check_version() {
        if (!compares_versions() || version_) return;
        plan_.errors.push_back("--main-container-version cannot be compared: " + version_.error().text());
    }

    void leave_out() {
        if (!plan_.is_main_container_same || options_.same_version == SameVersion::skips_binaries) return;
        plan_.copies.clear();
        plan_.unplaced.clear();
    }

    StageOptions const& options_;
    Result<std::string> const& version_;
    StagePlan plan_;
    // With ten thousand files, a linear search would be the slow part.
    std::set<std::string> required_;
    std::set<std::string> inputs_;
    std::set<std::string> targets_;
};

}  // namespace

std::string path_in(std::string_view directory, std::string_view name) {
    std::string path(directory);
    if (!path.ends_with('/')) path += '/';
    return path.append(name);
}

StagePlan plan(StageOptions const& options, Result<std::string> const& version) {
    return Planner(options, version).make();
}

}  // namespace triton::sidecar
