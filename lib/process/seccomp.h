#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include <linux/filter.h>

#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/settings.h"

namespace triton::process {

/// A filter of system calls, compiled for this architecture; all others are refused. Compiling takes milliseconds.
/// Equal filters share their code, as long as one of them lives.
class SeccompFilter {
public:
    using Code = std::vector<sock_filter>;

    /// Profiles `default` and `strict` allow what they list; what they do not list gets the action, and what libseccomp
    /// does not know (newer kernels' calls) gets ENOSYS, so that libc takes its older way. `none` refuses only what is
    /// denied. `allow` adds to the profile, `deny` takes from both.
    /// Errors, at most 100 and the number of the others: "<at>.deny[0]: unknown system call \"foo\"", with the one that
    /// was probably meant; what no program could be started without.
    static std::expected<SeccompFilter, json::Problems> create(SeccompSettings const& seccomp, json::Where const& at);
    /// What another process of the same program has compiled of these settings. As long as it lives, create() returns
    /// it for equal ones.
    static SeccompFilter compiled_elsewhere(SeccompSettings const& seccomp, Code code);

    [[nodiscard]] bool is_of(SeccompSettings const& seccomp) const { return source_ == seccomp; }
    [[nodiscard]] SeccompSettings const& settings() const { return source_; }
    [[nodiscard]] Code const& code() const { return *code_; }

    /// For seccomp(2), SECCOMP_SET_MODE_FILTER. Lives as long as this or any copy.
    [[nodiscard]] sock_fprog program() const {
        return {static_cast<unsigned short>(code_->size()), const_cast<sock_filter*>(code_->data())};
    }

    bool operator==(SeccompFilter const& other) const { return source_ == other.source_; }

    /// How many filters this process has compiled; for tests of what a load costs.
    static std::uint64_t compilations();
    /// The library that compiles, and its version: "libseccomp 2.5.4".
    static std::string compiler();

private:
    SeccompFilter() = default;
    SeccompSettings source_;
    std::shared_ptr<Code const> code_;
};

}  // namespace triton::process
