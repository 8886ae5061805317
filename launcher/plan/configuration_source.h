#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/process_configuration.h"
#include "config/substitution.h"
#include "launcher/plan/launch_options.h"
#include "launcher/plan/program_plan.h"

namespace triton::launcher {

/// The command beside the programs, among them. No program of a configuration can have such a name.
inline constexpr std::string_view command_name = "triton-command";

/// A configuration that passed every check: it can be started without looking at anything again.
struct Accepted {
    std::string text;                            ///< as it was read; the merged text if there are several files
    config::ProcessConfiguration configuration;  ///< without its programs, which the plans have
    /// In the document's order; one, unnamed, for the design's form.
    std::vector<std::shared_ptr<ProgramPlan const>> programs;
    std::vector<config::Reference> variables;  ///< what it takes from the environment
    /// For those who make the command lines again: every variable that a `source` names with the value that was used
    /// (of an IPList the chosen address), and BINARY_DIR, the directory of the first program's binary. Each name once.
    std::vector<std::pair<std::string, std::string>> environment;
    std::vector<std::string> warnings;
    std::vector<std::string> remarks;           ///< what replaces missing binaries, or is missing; check adds others
    std::vector<std::string> missing_binaries;  ///< paths of those others, and of further files that it is made of:
                                                ///< their change is one of the configuration
    std::size_t document = 0;                   ///< a hash of its text, as of Rejected

    /// Of all programs; 0 when the configuration says that nothing is to run.
    [[nodiscard]] std::uint32_t process_count() const;
    /// Whether a program has a probe that the agent makes, or messages that it sends; also one of which no process is
    /// to run now.
    [[nodiscard]] bool needs_agent() const;
};

/// Why a configuration is not used: everything that is wrong with it.
struct Rejected {
    std::vector<std::string> errors{};
    std::vector<std::string> warnings{};          ///< oddities beside them
    std::vector<std::string> remarks{};           ///< see Accepted
    std::vector<std::string> missing_binaries{};  ///< paths whose appearance may change that
    std::size_t document = 0;                     ///< a hash of its text; 0: it could not be read
    bool misses_node_label = false;               ///< a variable that the agent brings (config::node_label_prefix)
    bool is_too_much = false;                     ///< of a small or a first load: nothing else is known then
};

/// The inputs of a configuration, as they were read.
struct SourceTexts {
    Result<std::vector<config::Layer>> document;
    Result<std::string> environment_file;  ///< empty when there is none

    bool operator==(SourceTexts const&) const = default;
};
SourceTexts read_source(Result<std::vector<config::Layer>> document, SourceOptions const& options);

/// Tells documents apart.
std::size_t hash_of(std::vector<config::Layer> const& document);

/// A document that is one text.
Result<std::vector<config::Layer>> one_layer(Result<std::string> text);

/// The slow findings of a load, in the order of its questions, so that another process need not ask
/// again.
struct Findings {
    std::vector<process::SeccompFilter::Code> filters;
    std::vector<std::string> commands;  ///< the files that first words mean

    bool operator==(Findings const& other) const;
};

/// How much a load does.
enum class LoadKind : std::uint8_t {
    whole,   ///< everything
    small,   ///< everything, unless that may take longer than PID 1 has in a round: see may_be_loaded()
    first,   ///< everything, unless that may take longer than a launcher has that runs nothing yet
    follow,  ///< what another process has found out is taken from `findings`
    again,   ///< of a configuration that runs: what was tried is not tried again
};

/// Whether a load of this kind, `small` or `first`, is worth an attempt.
bool may_be_loaded(LoadKind kind, SourceTexts const& texts, char const* const* environment);

/// A document that was parsed before it is loaded, so that the load does not parse it again. Whoever takes it leaves it
/// empty.
struct ReadAhead {
    std::vector<config::Layer> document;
    std::optional<config::Draft> draft;
};
/// Has no draft when there is no document.
ReadAhead read_ahead(Result<std::vector<config::Layer>> document);

/// Whether a binary is chosen by its version, so that the container's own has to be known. Not as long as that is open:
/// the configuration cannot be read, or something in it is wrong or odd ("comand").
bool needs_container_version(ReadAhead const& ahead);

enum class BinaryCheck : std::uint8_t { required, skipped };

/// Takes the text of a configuration (or why there is none) and of the additional environment file, and makes the
/// safety checks of the design: the binary exists, is a file, is not empty and can be executed by us; every variable
/// has a value; the arguments can be made for every process, and what its probes ask is good for every process.
/// `environment`: as execve(2) takes it; what only concerns the launcher itself is not passed on. With
/// BinaryCheck::skipped a binary that is not there is taken at its word
/// (`check` on another machine). `findings`: filled by LoadKind::whole, used up by LoadKind::follow; may be null.
std::expected<Accepted, Rejected> load_configuration(SourceTexts const& texts, SourceOptions const& options,
                                                     char const* const* environment, BinaryCheck binary_check,
                                                     LoadKind kind, Findings* findings);
/// A whole load, which also reads the additional environment file.
std::expected<Accepted, Rejected> load_configuration(Result<std::string> const& text, SourceOptions const& options,
                                                     char const* const* environment,
                                                     BinaryCheck binary_check = BinaryCheck::required);

}  // namespace triton::launcher
