#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/rare_list.h"
#include "lib/process/attributes.h"
#include "lib/process/command_template.h"
#include "lib/process/spawn_child.h"

namespace triton::process {

/// The file that a command's first word means for a process with this environment and these attributes, as execvp(3)
/// looks for it: a word with a slash is its own path, relative to the working directory; another is searched for in
/// PATH (without one: "/usr/local/bin:/usr/bin:/bin"), inside the root directory. Errors: "cannot find \"web\" in PATH
/// (/usr/bin:/bin)"; of the path itself as "cannot execute /srv/web: <reason>", which includes "is not a file" and "is
/// empty"; both name the root directory. Execute permission is looked at as ours, not as the other user's.
Result<std::string> find_program(std::string const& word, std::vector<std::string> const& environment,
                                 Attributes const& attributes);

/// NAME=value entries, which plans share: most programs of a configuration have the same, or add to the same.
class SharedEnvironment {
public:
    SharedEnvironment(std::vector<std::string> entries);  // NOLINT(google-explicit-constructor): nobody has to share
    /// Those of `base` that are kept, which both share, and then its own.
    SharedEnvironment(SharedEnvironment const& base, std::vector<char*> kept, std::vector<std::string> own)
        : SharedEnvironment(base.block_, std::move(kept), std::move(own)) {}
    /// All of `base`, and one more.
    SharedEnvironment(SharedEnvironment const& base, std::string own);

    [[nodiscard]] std::span<char* const> entries() const {
        return std::span<char* const>(block_->pointers).first(block_->pointers.size() - 1);
    }
    [[nodiscard]] char* const* envp() const { return block_->pointers.data(); }
    bool operator==(SharedEnvironment const& other) const;

private:
    struct Block {
        std::shared_ptr<Block const> base;  // has what is not its own
        std::vector<std::string> own;
        std::vector<char*> pointers;  // as execve(2) wants them
    };
    SharedEnvironment(std::shared_ptr<Block const> base, std::vector<char*> kept, std::vector<std::string> own);

    std::shared_ptr<Block const> block_;
};

/// Attributes, and what of them a child is given. Plans share them: most programs of a configuration have the same.
class SharedAttributes {
public:
    SharedAttributes(Attributes attributes = {});  // NOLINT(google-explicit-constructor): nobody has to share

    [[nodiscard]] Attributes const& all() const { return block_->all; }
    /// For the child between clone and execve; null when there is nothing to do.
    [[nodiscard]] ChildAttributes const* child() const { return block_->is_needed ? &block_->child : nullptr; }
    bool operator==(SharedAttributes const& other) const { return block_ == other.block_ || all() == other.all(); }

private:
    struct Block {
        explicit Block(Attributes attributes);
        Block(Block const&) = delete;
        Block& operator=(Block const&) = delete;

        Attributes all;
        std::vector<ChildLimit> limits;
        std::vector<unsigned long> mask;  // of CPUs
        sock_fprog seccomp{};
        ChildAttributes child{};  // points into the others
        bool is_needed = false;
    };
    std::shared_ptr<Block const> block_;
};

/// What is not the same for all processes of one program.
struct NumberedParts {
    RareList<CommandTemplate> environment = {};     ///< their arguments are NAME=value entries
    RareList<SharedEnvironment> environments = {};  ///< of process 1, 2 and so on, in place of the plan's; empty: none
    Rare<CommandTemplate> directory = {};           ///< one argument, in place of Attributes::working_directory

    bool operator==(NumberedParts const&) const = default;
};

/// How all processes of one program are started: immutable, shared by the children until the last one has left our
/// memory.
class StartPlan {
public:
    /// `program`: the path for execve(2) (inside the root directory, relative to the working directory). argv is
    /// `name` (empty: the program's path) and the arguments of `command`. `environment`: NAME=value entries.
    /// Entries that the attributes define (LISTEN_FDS, WATCHDOG_USEC ..) are left out of each environment. With a
    /// numbered directory the attributes name the first one.
    StartPlan(std::string program, SharedEnvironment environment, CommandTemplate command, NumberedParts numbered = {},
              SharedAttributes attributes = {}, std::string name = {});
    StartPlan(StartPlan const&) = delete;
    StartPlan& operator=(StartPlan const&) = delete;

    [[nodiscard]] char const* program() const { return program_.c_str(); }
    [[nodiscard]] char const* name() const { return name_.empty() ? program() : name_.c_str(); }
    [[nodiscard]] CommandTemplate const& command() const { return command_; }
    /// Without the templates. A number above all that are known is that of a process that is to be stopped.
    [[nodiscard]] SharedEnvironment const& environment(ProcessNumber number) const {
        auto const& own = numbered_.environments;
        return own.empty() ? environment_
                           : own[std::min<std::size_t>(static_cast<std::uint32_t>(number), own.size()) - 1];
    }
    [[nodiscard]] NumberedParts const& numbered() const { return numbered_; }
    /// Empty: the launcher's.
    [[nodiscard]] std::string working_directory(ProcessNumber number) const;
    [[nodiscard]] Attributes const& attributes() const { return attributes_.all(); }
    /// For the child between clone and execve; null when there is nothing to do.
    [[nodiscard]] ChildAttributes const* child_attributes() const { return attributes_.child(); }

    /// Whether they start the same.
    bool operator==(StartPlan const& other) const {
        return program_ == other.program_ && name_ == other.name_ && environment_ == other.environment_ &&
               command_ == other.command_ && numbered_ == other.numbered_ && attributes_ == other.attributes_;
    }

private:
    std::string program_;
    std::string name_;
    SharedEnvironment environment_;
    CommandTemplate command_;
    NumberedParts numbered_;
    SharedAttributes attributes_;
};

}  // namespace triton::process
