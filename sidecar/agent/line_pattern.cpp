#include "sidecar/agent/line_pattern.h"

#include <algorithm>
#include <utility>

#include <re2/re2.h>

namespace triton::agent {

namespace {

// The memory of one pattern, with everything that matching adds (RE2::Options::max_mem).
constexpr std::int64_t most_memory = 1 << 20;

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

RE2::Options options() {
    RE2::Options options;
    options.set_max_mem(most_memory);
    options.set_log_errors(false);
    options.set_never_capture(true);
    return options;
}

}  // namespace

LinePattern::LinePattern(std::unique_ptr<re2::RE2 const> compiled) : compiled_(std::move(compiled)) {}
LinePattern::~LinePattern() = default;
LinePattern::LinePattern(LinePattern&&) noexcept = default;
LinePattern& LinePattern::operator=(LinePattern&&) noexcept = default;

Result<LinePattern> LinePattern::compile(std::string_view pattern) {
    auto compiled = std::make_unique<re2::RE2 const>(piece(pattern), options());
    if (!compiled->ok()) return fail(compiled->error());
    return LinePattern(std::move(compiled));
}

bool LinePattern::matches(std::string_view line) const { return RE2::PartialMatch(piece(line), *compiled_); }

std::string check_patterns(int count, char const* const* patterns) {
    std::string faults;
    for (int at = 0; at < count; ++at) {
        auto const pattern = LinePattern::compile(patterns[at]);
        if (pattern) continue;
        std::string reason = pattern.error().text();
        std::ranges::replace(reason, '\n', ' ');  // it may quote the pattern
        faults += std::to_string(at) + ":" + reason + "\n";
    }
    return faults + "checked " + std::to_string(count) + "\n";
}

}  // namespace triton::agent
