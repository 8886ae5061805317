#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace triton::agent {

/// A regular expression that lines of a program's output are compared with. Time is linear in the length of a line,
/// whatever the pattern is, and memory has a limit: RE2 never goes back.
class LinePattern {
public:
    /// Errors: what is wrong with it, in RE2's words: "missing ): (".
    static Result<LinePattern> compile(std::string_view pattern);
    ~LinePattern();
    LinePattern(LinePattern&&) noexcept;
    LinePattern& operator=(LinePattern&&) noexcept;

    /// Whether some part of the line matches.
    [[nodiscard]] bool matches(std::string_view line) const;

private:
    explicit LinePattern(std::unique_ptr<re2::RE2 const> compiled);

    std::unique_ptr<re2::RE2 const> compiled_;
};

/// What `check-pattern` prints: "INDEX:REASON" in a line for each of these that cannot be compiled, and "checked COUNT"
/// at the end, so that another program is not taken for one that finds nothing.
std::string check_patterns(int count, char const* const* patterns);

}  // namespace triton::agent
