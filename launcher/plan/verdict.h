#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/plan/configuration_source.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::launcher {

/// A helper process's judgement of a configuration. It is bounded by the bytes of its text, and reading it takes
/// time in proportion to them.
struct Verdict {
    std::optional<Rejected> rejected{};  ///< nullopt: it is good, and to be loaded with LoadKind::follow
    Findings findings{};                 ///< of a good one
};

constexpr std::size_t longest_verdict = 4 << 20;  ///< 64 of the longest filters, and a thousand long paths

/// How much of the processor's time PID 1 may take to follow a verdict. The sanitizers make everything slower.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr Duration time_to_follow = std::chrono::seconds(5);
#else
inline constexpr Duration time_to_follow = milliseconds(500);
#endif

/// Loads a configuration, and then once more as PID 1 will with what was found: the rehearsal tells how long that
/// takes. A configuration whose rehearsal takes longer than `most` of the processor's time is rejected: "it takes more
/// than 500ms to follow". To be called in a process that may be killed.
Verdict judge(SourceTexts const& texts, SourceOptions const& options, char const* const* environment,
              Duration most = time_to_follow);

/// Both are of the same program: a helper is a copy of the reader of its verdict.
std::string write_verdict(Verdict const& verdict);
/// Errors: `corrupt`.
Result<Verdict> read_verdict(std::string_view text);

}  // namespace triton::launcher
