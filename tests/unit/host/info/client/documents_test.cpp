#include "host/info/client/documents.h"

#include <gtest/gtest.h>

#include "host/info/client/event_selection.h"

namespace triton::info {
namespace {

constexpr std::string_view uuid = "6af640c5-9042-4985-bc94-ed532f779664";

json::Node record(std::string_view text) {
    auto node = read_record(text);
    EXPECT_TRUE(node) << text;
    return node.value_or(json::Node{});
}

std::string modify(std::string_view alias, std::string_view changes) {
    return R"({"seq":7,"ts":"2026-11-22T16:12:19.453Z","date":"2026-11-22T16:12:19.453Z","type":"modify","zonename":")" +
           std::string(uuid) + R"(","uuid":")" + std::string(uuid) + R"(","alias":)" + std::string(alias) +
           R"(,"changes":)" + std::string(changes) + "}";
}

TEST(EventLines, OneForEachChange) {
    std::string const text =
        modify(R"("web")", R"([{"path":"alias","prettyPath":"alias","action":"changed","from":"foo","to":"web"},)"
                           R"({"path":"nics.0.ip","action":"added","from":null,"to":"10.0.0.1"},)"
                           R"({"prettyPath":"tags.a","action":"removed","oldValue":{"b":[1,true]}}])");
    EXPECT_EQ(event_lines(record(text), false),
              "[16:12:19.453Z] 6af640c5 web modify: alias changed :: \"foo\" -> \"web\"\n"
              "[16:12:19.453Z] 6af640c5 web modify: nics.0.ip added :: null -> \"10.0.0.1\"\n"
              "[16:12:19.453Z] 6af640c5 web modify: tags.a removed :: {\"b\":[1,true]} -> null\n");
    std::vector<std::string> const some{"nics", "tags"};
    EXPECT_EQ(event_lines(record(text), false, some),
              "[16:12:19.453Z] 6af640c5 web modify: nics.0.ip added :: null -> \"10.0.0.1\"\n"
              "[16:12:19.453Z] 6af640c5 web modify: tags.a removed :: {\"b\":[1,true]} -> null\n");
    EXPECT_TRUE(event_lines(record(text), true)
                    .starts_with("[2026-11-22T16:12:19.453Z] 6af640c5-9042-4985-bc94-ed532f779664 web modify: alias"));
}

TEST(EventLines, WhatHasNoChanges) {
    auto const lines = [](std::string const& more) {
        return event_lines(
            record(R"({"ts":"2026-11-22T16:12:19.453Z","uuid":")" + std::string(uuid) + "\"," + more + "}"), false);
    };
    EXPECT_EQ(lines(R"("type":"create","vm":{"alias":"db"})"), "[16:12:19.453Z] 6af640c5 db create\n");
    EXPECT_EQ(lines(R"("type":"delete")"), "[16:12:19.453Z] 6af640c5 - delete\n");
    EXPECT_EQ(lines(R"("type":"ready","vms":[{},{}])"), "[16:12:19.453Z] 6af640c5 - ready: 2 VMs\n");
    EXPECT_EQ(lines(R"("type":"ack")"), "");
    EXPECT_EQ(event_lines(record(R"({"type":"heartbeat"})"), false), "");
    EXPECT_EQ(event_lines(record(R"({"type":"resync","date":"x","vms":[]})"), false),
              "[x] - - resync: events were missed, there are 0 VMs\n");
    EXPECT_EQ(event_lines(record(R"({"type":"modify","changes":"?"})"), false), "");
}

TEST(EventLines, LongAliasesAreCutBetweenCharacters) {
    std::string thirty;
    for (int i = 0; i < 30; ++i)
        thirty += "\xc3\xa4";
    std::string const changes = R"([{"path":"x","action":"changed","from":1,"to":2}])";
    EXPECT_EQ(event_lines(record(modify('"' + thirty + '"', changes)), false),
              "[16:12:19.453Z] 6af640c5 " + thirty + " modify: x changed :: 1 -> 2\n");
    EXPECT_EQ(event_lines(record(modify('"' + thirty + "b\"", changes)), false),
              "[16:12:19.453Z] 6af640c5 " + thirty.substr(0, 54) + "... modify: x changed :: 1 -> 2\n");
}

TEST(EventLines, NothingInThemMovesACursor) {
    std::string const evil = R"("\u001b[2J\u009b1m\u007f\n\r")";
    std::string const lines =
        event_lines(record(modify(evil, R"([{"path":"tags.\u001b]0;x\u0007","action":"\u001bc","from":)" + evil +
                                            R"(,"to":)" + evil + "}]")),
                    true);
    EXPECT_EQ(lines.find_first_of("\x1b\x7f\r\x07"), std::string::npos);
    EXPECT_EQ(lines.find("\xc2\x9b"), std::string::npos);
    EXPECT_EQ(lines.find('\n'), lines.size() - 1);
}

TEST(EventLines, AnEnormousValueIsCut) {
    std::string const big(1 << 20, 'x');
    std::string const lines =
        event_lines(record(modify("\"a\"", R"([{"path":"x","action":"added","to":")" + big + "\"}]")), false);
    EXPECT_LT(lines.size(), 5000U);
    EXPECT_TRUE(lines.ends_with("xxx...\n"));
}

TEST(Documents, AreCheckedAsFarAsTheyAreUsed) {
    EXPECT_EQ(read_machines(R"([{"uuid":"x"},{"uuid":"y","state":"unreadable"}])")->size(), 2U);
    struct Row {
        std::string_view text, reason;
    };
    Row const rows[] = {
        {R"({"uuid":"x"})", "it is not a list of machines"},
        {R"([{"uuid":1}])", "it is not a list of machines"},
        {"[1]", "it is not a list of machines"},
        {"", "line 1, column 1: the document is empty"},
    };
    for (Row const& row : rows) {
        auto const read = read_machines(row.text);
        ASSERT_FALSE(read) << row.text;
        EXPECT_EQ(read.error().kind, ErrorKind::corrupt);
        if (!row.text.empty()) {
            EXPECT_EQ(read.error().text(), "cannot read the answer of vminfod: " + std::string(row.reason));
        }
    }
    EXPECT_FALSE(read_machine("[]"));
    EXPECT_FALSE(read_record("{}"));
    EXPECT_TRUE(is_unreadable(*read_machine(R"({"uuid":"x","state":"unreadable"})")));
    EXPECT_FALSE(is_unreadable(*read_machine(R"({"uuid":"x","state":"running"})")));
}

// --- selection ---

machine::Filter filter(std::string_view text) { return *machine::Filter::parse(text, "filter"); }

std::string event(std::string_view type, std::string_view which, std::string_view state) {
    std::string const vm = R"({"uuid":")" + std::string(which) + R"(","state":")" + std::string(state) + "\"}";
    return R"({"type":")" + std::string(type) + R"(","uuid":")" + std::string(which) + "\"" +
           (type == "delete" ? "" : ",\"vm\":" + vm) + "}";
}

using Verdict = EventSelection::Verdict;

TEST(EventSelection, ShowsAllWithoutConditions) {
    EventSelection selection({}, {});
    EXPECT_FALSE(selection.needs_snapshot());
    for (std::string_view const type : {"create", "modify", "delete"})
        EXPECT_EQ(selection.look(record(event(type, "a", "running"))), Verdict::shown);
    EXPECT_EQ(selection.look(record(R"({"type":"ack"})")), Verdict::shown);
}

TEST(EventSelection, AMachineIsShownWhenItFulfilsOrHasFulfilledTheConditions) {
    EventSelection selection({filter("state=running")}, {});
    EXPECT_TRUE(selection.needs_snapshot());
    EXPECT_EQ(selection.look(record(R"({"type":"ready","vms":[{"uuid":"a","state":"running"}]})")), Verdict::shown);
    EXPECT_EQ(selection.look(record(event("modify", "b", "stopped"))), Verdict::hidden);
    EXPECT_EQ(selection.look(record(event("modify", "a", "stopping"))), Verdict::shown);
    EXPECT_EQ(selection.look(record(event("modify", "a", "stopped"))), Verdict::hidden);
    EXPECT_EQ(selection.look(record(event("delete", "a", ""))), Verdict::hidden);
    EXPECT_EQ(selection.look(record(event("modify", "b", "running"))), Verdict::shown);
    EXPECT_EQ(selection.look(record(event("delete", "b", ""))), Verdict::shown);
}

TEST(EventSelection, WhatAMachineWasIsInTheEventToo) {
    auto const verdict = [](std::string_view condition, std::string_view changes) {
        return EventSelection({filter(condition)}, {})
            .look(
                record(R"({"type":"modify","uuid":"a","vm":{"uuid":"a","state":"stopped","tags":{"x":1}},"changes":)" +
                       std::string(changes) + "}"));
    };
    EXPECT_EQ(verdict("state=running", R"([{"path":"state","oldValue":"running","newValue":"stopped"}])"),
              Verdict::shown);
    EXPECT_EQ(verdict("state=running", R"([{"path":"state","oldValue":"stopping","newValue":"stopped"}])"),
              Verdict::hidden);
    EXPECT_EQ(verdict("alias=web", R"([{"path":"alias","oldValue":"web"}])"), Verdict::shown);
    EXPECT_EQ(verdict("tags.x=2", R"([{"path":"tags.x","oldValue":2,"newValue":1}])"), Verdict::shown);
    EXPECT_EQ(verdict("tags.x=2", R"([{"path":"nics.0.ip","oldValue":"2"},{"path":""},{}])"), Verdict::hidden);
    EventSelection selection({filter("alias=web")}, {});
    EXPECT_EQ(selection.look(record(R"({"type":"delete","uuid":"a","alias":"web"})")), Verdict::shown);
    EXPECT_EQ(selection.look(record(R"({"type":"delete","uuid":"a","alias":"db"})")), Verdict::hidden);
}

TEST(EventSelection, EndsWithTheFirstThatFulfilsTheGoal) {
    EventSelection selection({}, {filter("state=running")});
    EXPECT_EQ(selection.look(record(R"({"type":"ready","vms":[{"uuid":"a","state":"stopped"}]})")), Verdict::shown);
    EXPECT_EQ(selection.look(record(event("modify", "a", "starting"))), Verdict::shown);
    EXPECT_EQ(selection.look(record(event("modify", "a", "running"))), Verdict::last);
    EXPECT_EQ(EventSelection({}, {filter("state=running")})
                  .look(record(R"({"type":"ready","vms":[{"uuid":"b","state":"x"},{"uuid":"a","state":"running"}]})")),
              Verdict::last);
}

TEST(EventSelection, AResyncTellsWhatIsGone) {
    EventSelection selection({filter("state=running")}, {});
    selection.look(record(R"({"type":"ready","vms":[{"uuid":"a","state":"running"},{"uuid":"b","state":"running"}]})"));
    selection.look(record(R"({"type":"resync","vms":[{"uuid":"a","state":"running"}]})"));
    EXPECT_EQ(selection.look(record(event("delete", "b", ""))), Verdict::hidden);
    EXPECT_EQ(selection.look(record(event("delete", "a", ""))), Verdict::shown);
}

}  // namespace
}  // namespace triton::info
