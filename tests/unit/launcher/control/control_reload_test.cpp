// A reload whose configuration a helper process judges.

#include <gmock/gmock.h>

#include "launcher/control/control_calls.h"
#include "tests/unit/launcher/control/control_subject.h"

namespace triton::launcher {

namespace {

using ::testing::HasSubstr;

class ControlReloadTest : public ControlSubject {};

TEST_F(ControlReloadTest, AReloadThatTakesLongIsAnsweredLater) {
    start();
    backend.reloaded = Reloaded::later;
    auto const client = connect();
    auto const other = connect();
    client->call(method("Reload"));
    until([this] { return !backend.done.empty(); });
    other->call("org.varlink.service.GetInfo");
    EXPECT_THAT(reply(*other), HasSubstr("vendor")) << "meanwhile";
    server->answer_reload({});
    EXPECT_EQ(reply(*client), R"({"parameters":{}})");
    client->call(method("Reload"));
    until([this] { return backend.done.size() == 2; });
    server->answer_reload(std::unexpected(Error{ErrorKind::internal, {}, "rejected", {"for x"}}));
    EXPECT_THAT(reply(*client), HasSubstr(R"({"reason":"rejected","details":["for x"]})"));
}

/// Its other calls, verdicts of probes among them, would have to wait on the same connection.
TEST_F(ControlReloadTest, TheAgentIsNotKeptWaiting) {
    start();
    backend.reloaded = Reloaded::later;
    auto const agent = adopted();
    agent->call(method("Reload"));
    EXPECT_EQ(reply(*agent), R"({"parameters":{}})");
    EXPECT_EQ(backend.done.size(), 1U);
}

}  // namespace

}  // namespace triton::launcher
