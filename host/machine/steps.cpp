#include "host/machine/steps.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <unistd.h>

namespace triton::machine {

namespace {

/// For tests of what a killed command leaves, in each build: SIGKILL comes at the step that TRITON_KILL_AT gives,
/// counted from 1.
void may_be_killed() {
    static int left = [] {
        char const* const text = std::getenv("TRITON_KILL_AT");
        return text ? std::atoi(text) : 0;
    }();
    if (left <= 0) return;
    --left;
    if (left == 0) ::kill(::getpid(), SIGKILL);
}

Mark mark_of(Operation const& operation, std::size_t step, bool is_undone) {
    return {std::string(operation.name), operation.data, step, is_undone, operation.was_running};
}

Result<> run_from(std::size_t first, Operation const& operation, Journal& journal, Progress const& progress,
                  std::size_t& reached) {
    for (reached = first; reached < operation.steps.size(); ++reached) {
        Step const& step = operation.steps[reached];
        may_be_killed();
        TRY(journal.write(mark_of(operation, reached, false)));
        may_be_killed();
        if (progress) progress(operation.name, step.name);
        TRY(step.run());
    }
    may_be_killed();
    TRY(journal.remove());
    may_be_killed();
    return {};
}

/// Undoes steps from `last` back to the first. Goes on after an error: everything that can be undone should be.
Result<> undo_from(std::size_t last, Operation const& operation, Journal& journal, Progress const& progress) {
    // What is undone after a kill anyway does without this mark, for which a full disk may have no room.
    auto const marked = journal.write(mark_of(operation, last, true));
    if (!marked && operation.after_kill == Outcome::finished) return marked;
    Result<> result;
    for (std::size_t i = std::min(last + 1, operation.steps.size()); i-- > 0;) {
        Step const& step = operation.steps[i];
        if (!step.undo) continue;
        if (progress) progress("undo", step.name);
        may_be_killed();
        if (auto undone = step.undo(); !undone && result) result = std::move(undone);
    }
    if (!result) return result;
    return journal.remove();
}

}  // namespace

Result<> perform(Operation const& operation, Journal& journal, Progress const& progress) {
    std::size_t reached = 0;
    auto done = run_from(0, operation, journal, progress, reached);
    if (done || (operation.after_kill == Outcome::finished && reached >= operation.undone_before)) return done;
    auto const undone = undo_from(reached, operation, journal, progress);
    if (!undone) done.error().details.push_back("what was done could not be taken back: " + undone.error().text());
    return done;
}

Result<Outcome> resume(Operation const& operation, Mark const& mark, Journal& journal, Progress const& progress) {
    std::size_t reached = 0;
    // Who would have undone it may have known how, and nobody else does.
    bool const can_undo = operation.undone_before > 0 ||
                          std::ranges::any_of(operation.steps, [](Step const& step) { return bool{step.undo}; });
    if (operation.after_kill == Outcome::finished && (!mark.is_undone || !can_undo)) {
        std::size_t const first = mark.is_undone ? 0 : mark.step;
        auto const done = run_from(first, operation, journal, progress, reached);
        if (done) return Outcome::finished;
        if (reached >= operation.undone_before) return std::unexpected(done.error());
    } else {
        reached = mark.step;
    }
    TRY(undo_from(reached, operation, journal, progress));
    return Outcome::undone;
}

}  // namespace triton::machine
