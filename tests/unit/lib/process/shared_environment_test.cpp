#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/process/start_plan.h"

namespace triton::process {
namespace {

using testing::ElementsAre;

std::vector<std::string> texts(SharedEnvironment const& environment) {
    return {environment.entries().begin(), environment.entries().end()};
}

TEST(SharedEnvironment, HasWhatIsKeptOfAnotherOneAndItsOwn) {
    SharedEnvironment base({"A=1", "B=2"});
    SharedEnvironment const derived(base, {base.entries()[1]}, {"C=3"});
    EXPECT_THAT(texts(derived), ElementsAre("B=2", "C=3"));
    EXPECT_EQ(derived.entries()[0], base.entries()[1]) << "it is shared";
    EXPECT_EQ(derived.envp()[2], nullptr);
    SharedEnvironment const more(derived, "D=4");
    base = SharedEnvironment({"E=5"});
    EXPECT_THAT(texts(more), ElementsAre("B=2", "C=3", "D=4"));
    EXPECT_THAT(texts(base), ElementsAre("E=5"));
}

TEST(SharedEnvironment, IsEqualWhereTheTextsAre) {
    SharedEnvironment const base({"A=1"});
    EXPECT_EQ(base, base);
    EXPECT_EQ(SharedEnvironment(base, "B=2"), SharedEnvironment({"A=1", "B=2"}));
    EXPECT_FALSE(SharedEnvironment(base, "B=2") == SharedEnvironment({"A=2", "B=2"}));
    EXPECT_FALSE(SharedEnvironment(base, "B=2") == SharedEnvironment({"B=2", "A=1"}));
    EXPECT_FALSE(SharedEnvironment(base, "B=2") == base);
    EXPECT_EQ(SharedEnvironment(std::vector<std::string>{}), SharedEnvironment(std::vector<std::string>{}));
}

}  // namespace
}  // namespace triton::process
