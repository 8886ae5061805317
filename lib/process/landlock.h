#pragma once

#include <expected>
#include <memory>
#include <string>

#include "lib/base/unique_fd.h"
#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/settings.h"

namespace triton::process {

/// What a process may do with files, as landlock(7) rules: only what the paths say; and whom it may reach if
/// a path says nothing. A copy shares the descriptor.
class LandlockRuleset {
public:
    /// Paths are those inside `root_directory` (empty: ours) and are resolved now. `readOnly`: read files,
    /// list directories; `readWrite`: all but execute; `execute`: read and execute. Errors: all of them: "<at>: this
    /// kernel has no Landlock", "<at>: this kernel's Landlock (ABI 2) cannot protect files from truncation; ABI 3
    /// (Linux 6.2) can", "<at>.signals: this kernel's Landlock (ABI 5) has no scopes; ABI 6 (Linux 6.12) has",
    /// "<at>.readOnly[0]: cannot open /x: No such file or directory".
    static std::expected<LandlockRuleset, json::Problems> create(LandlockSettings const& landlock,
                                                                 json::Where const& at,
                                                                 std::string const& root_directory);

    /// For landlock_restrict_self(2). Borrowed, close-on-exec.
    [[nodiscard]] int fd() const { return fd_->get(); }

    [[nodiscard]] bool is_of(LandlockSettings const& landlock, std::string const& root_directory) const {
        return source_ == landlock && root_directory_ == root_directory;
    }
    /// Whether they say the same.
    bool operator==(LandlockRuleset const& other) const { return is_of(other.source_, other.root_directory_); }

private:
    LandlockRuleset() = default;
    LandlockSettings source_;
    std::string root_directory_;
    std::shared_ptr<UniqueFd const> fd_;
};

/// The version of Landlock's interface that the kernel has; 0: none.
int landlock_abi();

}  // namespace triton::process
