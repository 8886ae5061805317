#include "launcher/control/control_wait.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

/// One letter a state, in the order of the enum: reached, never, or not yet.
std::string row(WaitFor what, std::uint32_t starts_before) {
    std::string letters;
    for (std::size_t i = 0; i < process_state_names.size(); ++i) {
        ProcessStatus process;
        process.state = static_cast<ProcessState>(i);
        process.starts = 1;
        WaitAnswer const answer = judge(what, process, starts_before);
        letters += answer == WaitAnswer::reached ? 'r' : answer == WaitAnswer::never ? 'n' : '-';
    }
    return letters;
}

struct Row {
    WaitFor what;
    std::uint32_t starts_before;
    std::string letters;
};

// States:  down waiting starting activating up draining pre_stop stopping killing backoff done failed held executing
//         undoing, stopping: its tree
std::array<Row, 9> const table{{
    {WaitFor::ready, 0, "----r-----rn----"},
    {WaitFor::up, 0, "---rr-----nn----"},
    {WaitFor::down, 0, "rr--------rrr---"},
    {WaitFor::done, 0, "----------rn----"},
    {WaitFor::started, 0, "----r----nrnn---"},
    {WaitFor::started, 1, "----r-----rnn---"},
    {WaitFor::restarted, 0, "----r----nrnn---"},
    {WaitFor::restarted, 1, "-----------nn---"},
    {WaitFor::stopped, 0, "r---------rrr---"},
}};

TEST(ControlWait, EveryStateHasItsAnswer) {
    for (Row const& one : table)
        EXPECT_EQ(row(one.what, one.starts_before), one.letters) << static_cast<int>(one.what);
}

TEST(ControlWait, OnlyEndsConcernProcessesThatAreNotWanted) {
    EXPECT_TRUE(concerns_unwanted(WaitFor::down) && concerns_unwanted(WaitFor::stopped));
    EXPECT_FALSE(concerns_unwanted(WaitFor::ready) || concerns_unwanted(WaitFor::restarted));
}

}  // namespace

}  // namespace triton::launcher
