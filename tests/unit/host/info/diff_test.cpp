#include "host/info/diff.h"

#include "tests/unit/host/info/samples.h"

namespace triton::info {
namespace {

/// "added alias  "web"": action, path, ident, from and to of each change, one a line.
std::string text(std::vector<Change> const& changes) {
    std::string text;
    for (Change const& change : changes) {
        static constexpr std::array<std::string_view, 3> names{"added", "changed", "removed"};
        text += std::string(names[static_cast<std::size_t>(change.action)]) + " " + change.path;
        text +=
            (change.ident.empty() ? "" : " (" + change.ident + ")") + " [" + change.from + "] [" + change.to + "]\n";
    }
    return text;
}

struct Row {
    std::string_view property;
    std::string_view from;
    std::string_view to;
    std::string_view changes;
};

TEST(Diff, SaysWhatHasChanged) {
    static constexpr auto rows = std::to_array<Row>({
        {"alias", R"("a")", R"("a")", ""},
        {"alias", "", R"("a")", "added alias [] [\"a\"]\n"},
        {"alias", R"("a")", "", "removed alias [\"a\"] []\n"},
        {"alias", R"("a")", R"("b")", "changed alias [\"a\"] [\"b\"]\n"},
        {"alias", "1", R"("1")", "changed alias [1] [\"1\"]\n"},
        {"tags", R"({"a":1,"b":2})", R"({"b":2,"a":1})", ""},
        {"tags", R"({"a":1,"b":2})", R"({"b":3,"c":4})",
         "removed tags.a [1] []\nchanged tags.b [2] [3]\nadded tags.c [] [4]\n"},
        {"resolvers", R"(["1","2"])", R"(["2","1"])", "changed resolvers [[\"1\",\"2\"]] [[\"2\",\"1\"]]\n"},
        {"nics", R"([{"mac":"m1","ip":"1"},{"mac":"m2","ip":"2"}])", R"([{"mac":"m2","ip":"3"},{"mac":"m3"}])",
         "removed nics.0 (m1) [{\"mac\":\"m1\",\"ip\":\"1\"}] []\nchanged nics.0.ip (m2) [\"2\"] [\"3\"]\n"
         "added nics.1 (m3) [] [{\"mac\":\"m3\"}]\n"},
        {"nics", R"([{"mac":"m1"},{"mac":"m2"}])", R"([{"mac":"m2"},{"mac":"m1"}])",
         "changed nics [[{\"mac\":\"m1\"},{\"mac\":\"m2\"}]] [[{\"mac\":\"m2\"},{\"mac\":\"m1\"}]]\n"},
        {"nics", R"([{"ip":"1"}])", R"([{"ip":"2"}])", "changed nics [[{\"ip\":\"1\"}]] [[{\"ip\":\"2\"}]]\n"},
        {"filesystems", R"([{"target":"/a","type":"x"}])", R"([{"target":"/a","type":"y"}])",
         "changed filesystems.0.type (/a) [\"x\"] [\"y\"]\n"},
        {"snapshots", R"([{"name":"a"}])", R"([{"name":"b"},{"name":"a"}])",
         "added snapshots.0 (b) [] [{\"name\":\"b\"}]\n"},
        {"launch_status", R"({"programs":[{"name":"web","processes":[{"number":1,"state":"up"}]}]})",
         R"({"programs":[{"name":"web","processes":[{"number":1,"state":"down"}]}]})",
         "changed launch_status.programs.0.processes.0.state (web:1) [\"up\"] [\"down\"]\n"},
        {"launch_status", R"({"launcher":{"programs":["a"]}})", R"({"launcher":{"programs":["b"]}})",
         "changed launch_status.launcher.programs [[\"a\"]] [[\"b\"]]\n"},
    });
    for (Row const& row : rows)
        EXPECT_EQ(text(diff(row.property, row.from, row.to)), row.changes) << row.property << " " << row.to;
}

/// {"k0":`value`,...}
std::string map_of(std::size_t count, std::string_view value) {
    std::string text = "{";
    for (std::size_t i = 0; i < count; ++i)
        text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::string(value);
    return text + "}";
}

TEST(Diff, TooManyChangesAreOne) {
    EXPECT_EQ(diff("tags", map_of(most_changes, "1"), map_of(most_changes, "2")).size(), most_changes);
    auto const changes = diff("tags", map_of(most_changes + 1, "1"), map_of(most_changes + 1, "2"));
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes.front().path, "tags");
    EXPECT_EQ(changes.front().from, map_of(most_changes + 1, "1"));
}

TEST(Diff, AViewSeesOnlyItsOwn) {
    machine::Machine before = sample(R"("alias":"a","customer_metadata":{"k":"1"},)");
    machine::Machine after = sample(R"("alias":"b","customer_metadata":{"k":"2"},)");
    before.launch_status = object(R"({"programs":[{"name":"web","processes":[{"number":1,"status":"a"}]}]})");
    after.launch_status = object(R"({"programs":[{"name":"web","processes":[{"number":1,"status":"b"}]}]})");
    EXPECT_EQ(text(diff(*make_document(before), *make_document(after), View::open)), "changed alias [\"a\"] [\"b\"]\n");
    EXPECT_EQ(text(diff(*make_document(before), *make_document(after), View::full)),
              "changed alias [\"a\"] [\"b\"]\nchanged customer_metadata.k [\"1\"] [\"2\"]\n"
              "changed launch_status.programs.0.processes.0.status (web:1) [\"a\"] [\"b\"]\n");
}

TEST(Diff, ChangesHaveBothNames) {
    json::Writer out;
    out.open('[');
    for (auto const& [from, to] :
         {std::pair{R"({"a":1})", R"({"a":2})"}, {"{}", R"({"a":null})"}, {R"({"a":1})", "{}"}})
        write_change(out, diff("tags", from, to).front());
    out.close(']');
    EXPECT_EQ(
        out.text(),
        R"([{"path":"tags.a","prettyPath":"tags.a","action":"changed","from":1,"to":2,"oldValue":1,"newValue":2},)"
        R"({"path":"tags.a","prettyPath":"tags.a","action":"added","from":null,"to":null,"newValue":null},)"
        R"({"path":"tags.a","prettyPath":"tags.a","action":"removed","from":1,"to":null,"oldValue":1}])");
}

}  // namespace
}  // namespace triton::info
