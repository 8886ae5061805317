#include "host/machine/steps.h"

#include <algorithm>

namespace triton::machine {

namespace {

Result<> run_from(std::size_t first, Operation const& operation, Journal& journal, Progress const& progress,
                  std::size_t& reached) {
    for (reached = first; reached < operation.steps.size(); ++reached) {
        Step const& step = operation.steps[reached];
        TRY(journal.write({std::string(operation.name), operation.data, reached}));
        if (progress) progress(operation.name, step.name);
        TRY(step.run());
    }
    return journal.remove();
}

/// Takes steps back from `last` to the first. It goes on after an error: what can be taken back should be.
Result<> undo_from(std::size_t last, Operation const& operation, Journal& journal, Progress const& progress) {
    TRY(journal.write({std::string(operation.name), operation.data, last, true}));
    Result<> result;
    for (std::size_t i = std::min(last + 1, operation.steps.size()); i-- > 0;) {
        Step const& step = operation.steps[i];
        if (!step.undo) continue;
        if (progress) progress("undo", step.name);
        if (auto undone = step.undo(); !undone && result) result = std::move(undone);
    }
    if (!result) return result;
    return journal.remove();
}

}  // namespace

Result<> perform(Operation const& operation, Journal& journal, Progress const& progress) {
    std::size_t reached = 0;
    auto done = run_from(0, operation, journal, progress, reached);
    if (done || operation.after_kill == Outcome::finished) return done;
    auto const undone = undo_from(reached, operation, journal, progress);
    if (!undone) done.error().details.push_back("what was done could not be taken back: " + undone.error().text());
    return done;
}

Result<> resume(Operation const& operation, Mark const& mark, Journal& journal, Progress const& progress) {
    std::size_t reached = 0;
    if (operation.after_kill == Outcome::finished && !mark.is_undone)
        return run_from(mark.step, operation, journal, progress, reached);
    return undo_from(mark.step, operation, journal, progress);
}

}  // namespace triton::machine
