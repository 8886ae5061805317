#include "launcher/services/check_output.h"

#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace triton::launcher {
namespace {

class CheckOutputTest : public ::testing::Test {
protected:
    std::unique_ptr<EventLoop> loop = std::move(*EventLoop::create());
    CheckOutput outputs{*loop};

    /// What a check has after its start: a copy of the end that it writes to.
    UniqueFd begin(CheckOutput::Key key) {
        auto const end = outputs.begin(key);
        UniqueFd copy{::dup(*end)};
        outputs.end_start(key);
        return copy;
    }
    static void write(UniqueFd const& to, std::string_view text) {
        ASSERT_EQ(::write(to.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
};

TEST_F(CheckOutputTest, KeepsTheEndOfWhatACheckPrints) {
    UniqueFd const first = begin(1);
    UniqueFd const second = begin(2);
    write(first, "one\ntwo\n");
    write(second, std::string(3000, 'x') + "end");
    EXPECT_EQ(outputs.end(1), "one\ntwo\n");
    EXPECT_EQ(outputs.end(2), std::string(CheckOutput::longest - 3, 'x') + "end");
    EXPECT_EQ(outputs.end(1), "") << "it has ended";
    EXPECT_EQ(outputs.end(3), "") << "it was never begun";
}

TEST_F(CheckOutputTest, ACheckThatPrintsMoreThanAPipeHoldsIsRead) {
    UniqueFd const check = begin(1);
    ASSERT_EQ(::fcntl(check.get(), F_SETFL, O_NONBLOCK), 0);
    std::string const piece(4096, 'x');
    std::size_t written = 0;
    EventLoop::Watch const watch = std::move(*loop->on_writable(check.get(), [&] {
        ssize_t const size = ::write(check.get(), piece.data(), piece.size());
        if (size > 0) written += static_cast<std::size_t>(size);
        if (written > 1'000'000) loop->stop();
    }));
    ASSERT_TRUE(loop->run());
    EXPECT_EQ(outputs.end(1).size(), CheckOutput::longest);
}

TEST_F(CheckOutputTest, GoesOnInAnotherVersion) {
    UniqueFd const check = begin(1);
    write(check, "before ");
    auto open = outputs.export_state();
    ASSERT_EQ(open.size(), 1U);
    open.front().read_end = ::dup(open.front().read_end);  // as an exec leaves it
    CheckOutput next(*loop);
    next.import_state(std::move(open));
    (void)outputs.end(99);
    write(check, "after");
    EXPECT_TRUE(next.end(1).ends_with("after"));
}

}  // namespace
}  // namespace triton::launcher
