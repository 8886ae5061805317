#pragma once

#include <memory>
#include <vector>

#include "launcher/supervisor/supervisor.h"
#include "tests/simulation/random.h"

namespace triton::simulation {

/// The configurations that one container gets in its life: a first one, and each other one made from the one before.
/// A program keeps its id, whether it is there or not. All that they hold is what a parser lets pass; in particular
/// the dependencies are acyclic, for they lead from a program only to those that stand before it in a fixed order. Any
/// program may be auxiliary; beside the design's form, which is one program, there may be one that is.
class Documents {
public:
    explicit Documents(Random& random);

    using Specs = std::shared_ptr<std::vector<launcher::ProgramSpec> const>;
    /// Counts, policies, dependencies and the programs themselves come and go. Without programs nothing is to run.
    Specs next();
    /// As many programs as there can ever be.
    [[nodiscard]] std::uint32_t programs() const { return static_cast<std::uint32_t>(slots_.size()); }
    [[nodiscard]] bool is_design_form() const { return is_design_form_; }
    [[nodiscard]] std::uint32_t highest_count() const { return highest_count_; }

private:
    struct Slot {
        launcher::ProgramPolicy policy;
        bool is_there = false;
    };

    launcher::ProgramPolicy policy_of_design_form();
    launcher::ProgramPolicy policy();
    launcher::ProgramPolicy successor(launcher::ProgramPolicy const& before);
    void add_order(std::vector<launcher::ProgramSpec>& specs);
    std::uint32_t count() { return static_cast<std::uint32_t>(random_.below(highest_count_ + 1)); }

    Random& random_;
    bool is_design_form_;
    bool is_simple_;  // few keys, so that what the rest would hide shows
    std::uint32_t highest_count_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> order_;  // slot -> rank
    bool is_first_ = true;
};

}  // namespace triton::simulation
