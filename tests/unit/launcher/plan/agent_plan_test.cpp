// How the agent is run: a program like any other, and what is different about it.

#include "launcher/plan/agent_plan.h"

#include <string>

#include <gmock/gmock.h>

namespace triton::launcher {

namespace {

using testing::ElementsAre;
using testing::Field;

constexpr char const* bare_environment[] = {"PATH=/bin", nullptr};

AgentOptions listening() {
    AgentOptions options;
    options.path = "/bin/true";
    options.listen = {"127.0.0.1:8080", ":8081"};
    options.probe_listen = {":8082", ":8083"};
    return options;
}

TEST(AgentPlan, IsAnAuxiliaryProgramWhoseOutputGoesWhereTheLogDoes) {
    auto const planned = plan_agent(listening(), {}, bare_environment);
    ASSERT_TRUE(planned) << planned.error().text();
    ProgramPlan const& plan = *planned->plan;
    EXPECT_EQ(plan.settings->name, agent_name);
    EXPECT_TRUE(plan.policy.auxiliary);
    EXPECT_EQ(plan.needs.output, StreamTarget::console);
    EXPECT_EQ(plan.needs.error, StreamTarget::inherited);
    EXPECT_TRUE(plan.needs.has_null_input);
    EXPECT_STREQ(plan.start->program(), "/bin/true");
    EXPECT_FALSE(planned->program) << "anybody may enter its directory";
}

TEST(AgentPlan, EachSocketNamesTheOptionThatItIsOf) {
    auto const planned = plan_agent(listening(), {}, bare_environment);
    ASSERT_TRUE(planned) << planned.error().text();
    EXPECT_THAT(
        planned->plan->sockets,
        ElementsAre(Field(&SocketRequest::place, "--listen"), Field(&SocketRequest::place, "--listen"),
                    Field(&SocketRequest::place, "--probe-listen"), Field(&SocketRequest::place, "--probe-listen")));
}

/// The descriptors that the shell adds come behind those of the sockets.
TEST(AgentPlan, NamesTheDescriptorsThatNoConfigurationAsksFor) {
    AgentOptions options = listening();
    options.listen.resize(1);
    options.probe_listen.clear();
    auto planned = plan_agent(options, {}, bare_environment);
    ASSERT_TRUE(planned) << planned.error().text();
    EXPECT_THAT(planned->plan->start->attributes().listen_names,
                ElementsAre("listen-1", "launcher", "syslog", "syslog-answers"));
    options.output_directory = "/tmp";
    planned = plan_agent(options, {}, bare_environment);
    ASSERT_TRUE(planned) << planned.error().text();
    EXPECT_THAT(planned->plan->start->attributes().listen_names,
                ElementsAre("listen-1", "launcher", "syslog", "syslog-answers", "output"));
}

TEST(AgentPlan, AnErrorNamesTheOption) {
    AgentOptions options = listening();
    options.path = "/nonexistent/agent";
    auto const planned = plan_agent(options, {}, bare_environment);
    ASSERT_FALSE(planned);
    EXPECT_EQ(planned.error().text(), "--agent-path: cannot execute /nonexistent/agent: No such file or directory");
}

}  // namespace

}  // namespace triton::launcher
