#include "host/info/document.h"

#include "tests/unit/host/info/samples.h"

namespace triton::info {
namespace {

machine::Machine rich() {
    machine::Machine machine =
        sample(R"("alias":"web","ram":1,"customer_metadata":{"password":"x"},"internal_metadata":{"k":"v"},)"
               R"("launch":{"arguments":["/bin/web","--token=x"]},"tags":{"role":"www"},)"
               R"("nics":[{"mac":"02:00:00:00:00:01","nic_tag":"admin","ip":"10.0.0.1"}],)");
    machine.state = machine::State::running;
    machine.launch_status = object(R"({"launcher":{"pid":1,"rejection":["x"]},"programs":[]})");
    return machine;
}

TEST(Documents, FullIsWhatGetShows) {
    machine::Machine const machine = rich();
    EXPECT_EQ(*make_document(machine)->text(View::full), machine::public_text(machine));
}

TEST(Documents, OpenHasNoSecrets) {
    machine::Machine const machine = rich();
    auto const document = make_document(machine);
    EXPECT_EQ(*document->text(View::open), machine::open_text(machine));
    for (std::string_view const secret : {"customer_metadata", "internal_metadata", "launch"}) {
        EXPECT_TRUE(document->member(View::full, secret)) << secret;
        EXPECT_FALSE(document->member(View::open, secret)) << secret;
    }
    EXPECT_EQ(document->text(View::open)->find("\"x\""), std::string::npos);
    EXPECT_EQ(document->text(View::open)->find("token"), std::string::npos);
    EXPECT_EQ(document->member(View::open, "launch_status"), R"({"launcher":{"pid":1},"programs":[]})");
}

TEST(Documents, KnowWhereEachPropertyStands) {
    auto const document = make_document(rich());
    json::Node const node = document->node(View::full);
    auto const* const members = node.get<json::Object>();
    ASSERT_TRUE(members);
    ASSERT_EQ(members->size(), document->fields().size());
    for (std::size_t i = 0; i < members->size(); ++i) {
        json::Writer value;
        value.value((*members)[i].node);
        EXPECT_EQ(Document::name_of(document->fields()[i]), (*members)[i].key);
        EXPECT_EQ(document->value(View::full, document->fields()[i]), value.text());
    }
    EXPECT_EQ(document->member(View::open, "state"), R"("running")");
    EXPECT_EQ(document->member(View::full, "hostname"), std::nullopt);
    EXPECT_EQ(document->member(View::full, "color"), std::nullopt);
}

TEST(Documents, ABrokenMachineHasItsError) {
    auto const document = make_broken("web\"1", fail(ErrorKind::corrupt, "read web", "line 1, column 2").error());
    EXPECT_TRUE(document->is_broken());
    EXPECT_EQ(*document->text(View::full), R"({"uuid":"web\"1","zonename":"web\"1","state":"unreadable",)"
                                           R"("error":"cannot read web: line 1, column 2"})");
    EXPECT_EQ(*document->text(View::open), R"({"uuid":"web\"1","zonename":"web\"1","state":"unreadable",)"
                                           R"("error":"its files cannot be read; the Unix socket says why"})");
    EXPECT_EQ(document->member(View::full, "error"), R"("cannot read web: line 1, column 2")");
}

}  // namespace
}  // namespace triton::info
