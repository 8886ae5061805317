#pragma once

#include <functional>
#include <optional>

#include "launcher/children/children.h"
#include "launcher/plan/verdict.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// Has a copy of the launcher judge a configuration: parsing, checking and planning it may take longer than PID 1 has
/// in a round, and more memory. The copy has limits, and whatever becomes of it is a verdict.
class DocumentJudge {
public:
    /// All outlive this. `source` and `environment`: as for load_configuration().
    DocumentJudge(SourceOptions const& source, char const* const* environment, Children& children)
        : source_(source), environment_(environment), children_(children) {}

    /// Begins. The end is reported to ended(), which may be called from in here; until then is_busy().
    void begin(SourceTexts texts);
    [[nodiscard]] bool is_busy() const { return texts_.has_value(); }
    /// Nothing happens when none is under way.
    void cancel();

    using Variables = decltype(SourceOptions::variables);
    struct Judged {
        SourceTexts texts;
        Variables variables;  ///< of SourceOptions, as the copy has them
        Verdict verdict;
    };
    /// The child of judge_key has ended. nullopt: it was cancelled, or could not be started. Rejected for lack of a
    /// verdict:
    /// "checking it takes more than 5s of the processor's time", "checking it was ended by SIGKILL".
    std::optional<Judged> ended(Children::Outcome const& outcome);

private:
    Result<pid_t> start();
    [[nodiscard]] Result<Verdict> read_answer() const;
    [[nodiscard]] Verdict verdict_of(Children::Outcome const& outcome) const;

    SourceOptions const& source_;
    char const* const* environment_;
    Children& children_;
    std::optional<SourceTexts> texts_;
    Variables variables_;
    UniqueFd answer_;  // memory, which the copy writes to
};

}  // namespace triton::launcher
