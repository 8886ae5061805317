#include "host/info/cache.h"

#include "tests/unit/host/info/samples.h"

namespace triton::info {
namespace {

class CacheTest : public testing::Test {
protected:
    Feed feed{41};
    Cache cache{feed};

    EventPtr apply(DocumentPtr document) { return cache.apply(first_uuid, std::move(document), at); }
};

TEST_F(CacheTest, EventsHaveTheFieldsOfBothVminfods) {
    auto const created = apply(document(R"("alias":"a",)"));
    ASSERT_TRUE(created);
    std::string const head = R"("ts":"2026-11-22T23:38:17.042Z","date":"2026-11-22T23:38:17.042Z",)";
    std::string const who = R"("uuid":"00000000-0000-4000-8000-000000000001")";
    EXPECT_EQ(*created->line(View::full),
              R"({"seq":42,)" + head + R"("type":"create","zonename":"00000000-0000-4000-8000-000000000001",)" + who +
                  R"(,"alias":"a","vm":)" + *document(R"("alias":"a",)")->text(View::full) + "}\n");
    auto const modified = apply(document(R"("alias":"b","zonename":"z",)"));
    ASSERT_TRUE(modified);
    EXPECT_EQ(
        *modified->line(View::open),
        R"({"seq":43,)" + head + R"("type":"modify","zonename":"z",)" + who + R"(,"alias":"b","changes":[)" +
            R"({"path":"alias","prettyPath":"alias","action":"changed","from":"a","to":"b","oldValue":"a","newValue":"b"},)" +
            R"({"path":"zonename","prettyPath":"zonename","action":"added","from":null,"to":"z","newValue":"z"}],"vm":)" +
            *document(R"("alias":"b","zonename":"z",)")->text(View::open) + "}\n");
    EXPECT_EQ(modified->properties(View::open), (std::vector<std::string>{"alias", "zonename"}));
    auto const removed = apply(nullptr);
    ASSERT_TRUE(removed);
    EXPECT_EQ(*removed->line(View::full),
              R"({"seq":44,)" + head + R"("type":"delete","zonename":"z",)" + who + R"(,"alias":"b"})" + "\n");
    EXPECT_EQ(*removed->stream_head(), "id: 44\nevent: delete\ndata: ");
}

TEST_F(CacheTest, WhatIsTheSameIsNoEvent) {
    EXPECT_TRUE(apply(document(R"("tags":{"a":1,"b":2},)")));
    EXPECT_FALSE(apply(document(R"("tags":{"a":1,"b":2},)")));
    EXPECT_FALSE(apply(document(R"("tags":{"b":2,"a":1},)")));
    EXPECT_EQ(*cache.find(first_uuid)->text(View::full), *document(R"("tags":{"b":2,"a":1},)")->text(View::full));
    EXPECT_TRUE(apply(nullptr));
    EXPECT_FALSE(apply(nullptr));
    EXPECT_EQ(feed.next(), 44U);
}

TEST_F(CacheTest, AFileThatSaysTheSameIsNoEvent) {
    auto const at_time = [](std::string const& time) {
        machine::Machine machine;
        machine.uuid = *Uuid::parse(first_uuid);
        machine.last_modified = time;
        return make_document(machine);
    };
    EXPECT_TRUE(apply(at_time("2026-11-22T00:00:00.000Z")));
    EXPECT_FALSE(apply(at_time("2026-11-22T00:00:01.000Z")));
    EXPECT_EQ(cache.find(first_uuid)->member(View::full, "last_modified"), "\"2026-11-22T00:00:01.000Z\"");
    EXPECT_EQ(feed.next(), 43U);
}

TEST_F(CacheTest, SecretChangesAreNotForAll) {
    apply(document(R"("customer_metadata":{"password":"1"},)"));
    auto const event = apply(document(R"("customer_metadata":{"password":"2"},)"));
    ASSERT_TRUE(event);
    EXPECT_TRUE(event->line(View::full));
    EXPECT_FALSE(event->line(View::open));
}

TEST_F(CacheTest, CountsItsMachines) {
    apply(document());
    cache.apply("web", make_broken("web", {}), at);
    auto const counts = cache.counts();
    EXPECT_EQ(counts.machines, 2U);
    EXPECT_EQ(counts.broken, 1U);
    EXPECT_EQ(counts.states.at("provisioning"), 1U);
    EXPECT_EQ(counts.states.at("unreadable"), 1U);
    apply(nullptr);
    cache.apply("web", nullptr, at);
    EXPECT_EQ(cache.bytes(), 0U);
}

TEST(Feeds, AreBounded) {
    Feed feed(0, {.events = 3, .bytes = 1 << 20});
    Cache cache(feed);
    for (int i = 0; i < 5; ++i)
        cache.apply(first_uuid, document(R"("alias":")" + std::to_string(i) + R"(",)"), at);
    EXPECT_EQ(feed.first(), 3U);
    EXPECT_EQ(feed.next(), 6U);
    EXPECT_EQ(feed.dropped(), 2U);
    EXPECT_FALSE(feed.at(2));
    EXPECT_EQ(feed.at(3)->sequence(), 3U);
    EXPECT_FALSE(feed.at(6));
}

TEST(Feeds, CountTheirBytes) {
    Feed feed(0, {.events = 1000, .bytes = 100'000});
    Cache cache(feed);
    std::string const text(1'000, 'x');
    for (int i = 0; i < 20; ++i)
        cache.apply(first_uuid, document(R"("tags":{"k":")" + text + std::to_string(i) + R"("},)"), at);
    EXPECT_LE(feed.bytes(), 100'000U);
    EXPECT_LT(feed.first(), feed.next());
}

}  // namespace
}  // namespace triton::info
