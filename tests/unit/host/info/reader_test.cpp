#include "host/info/reader.h"

#include "tests/unit/host/info/samples.h"

namespace triton::info {
namespace {

class ReaderTest : public testing::Test {
protected:
    Feed feed{100, {.events = 4, .bytes = 1 << 20}};
    Cache cache{feed};
    SnapshotPlaces places{1};

    void rename(std::string_view alias, std::string_view uuid = first_uuid) {
        cache.apply(uuid, document(R"("alias":")" + std::string(alias) + R"(",)", uuid), at);
    }
    Reader reader(Reader::Options options) { return {std::move(options), "me", cache, feed, places}; }

    static std::string take(Reader& reader, std::size_t budget = 1 << 20) {
        std::string text;
        for (Text const& piece : reader.next(budget, at))
            text += *piece;
        return text;
    }
    std::string line(std::uint64_t sequence) const { return *feed.at(sequence)->line(View::full); }
    static std::string record(std::string_view type, std::uint64_t sequence) {
        std::string const date = date_of(at);
        return R"({"type":")" + std::string(type) + R"(","ts":")" + date + R"(","date":")" + date +
               R"(","uuid":"me","seq":)" + std::to_string(sequence);
    }
    std::string machine(std::string_view uuid = first_uuid) const { return *cache.find(uuid)->text(View::full); }
};

TEST_F(ReaderTest, BeginsWithAckAndGoesOnWithEvents) {
    rename("a");
    Reader one = reader({.view = View::full});
    EXPECT_TRUE(one.has_more());
    EXPECT_EQ(take(one), record("ack", 101) + "}\n");
    EXPECT_FALSE(one.has_more());
    EXPECT_EQ(take(one), "");
    rename("b");
    rename("c");
    EXPECT_TRUE(one.has_more());
    EXPECT_EQ(take(one, 1), line(102));
    EXPECT_EQ(one.behind(), 1U);
    EXPECT_EQ(take(one), line(103));
    EXPECT_EQ(one.sent(), 3U);
    EXPECT_EQ(*one.heartbeat(at), R"({"type":"heartbeat","ts":"2026-11-22T23:38:17.042Z","seq":103})"
                                  "\n");
}

TEST_F(ReaderTest, ASnapshotIsOfOneMoment) {
    rename("a");
    rename("b", second_uuid);
    Reader one = reader({.view = View::full, .snapshot = true});
    std::string const old = machine(second_uuid);
    std::string text = take(one, 1);
    EXPECT_TRUE(one.is_in_snapshot());
    rename("c", second_uuid);
    while (one.has_more())
        text += take(one, 1);
    EXPECT_EQ(text, record("ready", 102) + R"(,"vms":[)" + machine() + "," + old + "]}\n" + line(103));
    EXPECT_EQ(places.taken(), 0U);
}

TEST_F(ReaderTest, ContinuesWhereItWas) {
    rename("a");
    rename("b");
    Reader one = reader({.view = View::full, .since = 101, .snapshot = true});
    EXPECT_EQ(take(one), record("ack", 101) + "}\n" + line(102));
}

TEST_F(ReaderTest, ResyncsWhenItsPlaceIsGoneOrWasNeverThere) {
    for (int i = 0; i < 6; ++i)
        rename(std::to_string(i));
    for (std::uint64_t const since :
         {std::uint64_t{101}, std::uint64_t{107}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        Reader one = reader({.view = View::full, .since = since});
        EXPECT_EQ(take(one), record("ack", since) + "}\n" + record("resync", 106) + R"(,"vms":[)" + machine() + "]}\n");
        EXPECT_EQ(one.resyncs(), 1U);
    }
    Reader kept = reader({.view = View::full, .since = 102});
    EXPECT_EQ(take(kept), record("ack", 102) + "}\n" + line(103) + line(104) + line(105) + line(106));
}

TEST_F(ReaderTest, ASlowOneGetsOneResync) {
    rename("a");
    Reader one = reader({.view = View::full});
    take(one);
    for (int i = 0; i < 50; ++i)
        rename(std::to_string(i));
    EXPECT_EQ(take(one), record("resync", 151) + R"(,"vms":[)" + machine() + "]}\n");
    rename("z");
    EXPECT_EQ(take(one), line(152));
}

TEST_F(ReaderTest, WaitsForAPlace) {
    rename("a");
    Reader first = reader({.snapshot = true});
    Reader second = reader({.snapshot = true});
    take(first, 1);
    EXPECT_EQ(take(second), "");
    EXPECT_TRUE(second.waits_for_place());
    EXPECT_FALSE(second.has_more());
    take(first);
    EXPECT_FALSE(second.waits_for_place());
    EXPECT_NE(take(second), "");
}

TEST_F(ReaderTest, Filters) {
    Reader mine = reader({.view = View::full, .machines = {std::string(second_uuid)}});
    Reader deletes = reader({.view = View::full, .types = {EventType::remove}});
    Reader states = reader({.view = View::full, .fields = {"state", "alias"}});
    for (Reader* const one : {&mine, &deletes, &states})
        take(*one);
    rename("a");
    cache.apply(first_uuid, document(R"("alias":"a","hostname":"h",)"), at);
    rename("b", second_uuid);
    cache.apply(first_uuid, nullptr, at);
    EXPECT_EQ(take(mine), line(103));
    EXPECT_EQ(take(deletes), line(104));
    EXPECT_EQ(take(states), line(101) + line(103) + line(104));
}

TEST_F(ReaderTest, LooksAtSomeEventsAtATime) {
    Feed many{100, {.events = 10'000, .bytes = 64 << 20}};
    Cache all{many};
    Reader none({.view = View::full, .fields = {"tags", "state", "hostname"}}, "me", all, many, places);
    EXPECT_EQ(take(none), record("ack", 100) + "}\n");
    for (std::size_t i = 0; i < 3 * Reader::most_events; ++i)
        all.apply(first_uuid, document(R"("alias":")" + std::to_string(i) + R"(",)"), at);
    all.apply(first_uuid, document(R"("hostname":"h",)"), at);
    std::uint64_t const last = many.next() - 1;
    EXPECT_EQ(take(none), *many.at(101)->line(View::full));  // its creation
    EXPECT_EQ(none.behind(), last - 100 - Reader::most_events);
    EXPECT_EQ(take(none), "");
    EXPECT_TRUE(none.has_more());
    EXPECT_EQ(take(none), "");
    EXPECT_EQ(take(none), *many.at(last)->line(View::full));
    EXPECT_FALSE(none.has_more());
    EXPECT_EQ(take(none), "");
}

TEST_F(ReaderTest, SecretsStayInside) {
    cache.apply(first_uuid, document(R"("customer_metadata":{"password":"hidden"},)"), at);
    Reader one = reader({.view = View::open, .snapshot = true});
    std::string text = take(one);
    cache.apply(first_uuid, document(R"("customer_metadata":{"password":"hidden2"},)"), at);
    EXPECT_TRUE(one.has_more());
    text += take(one);
    EXPECT_EQ(text.find("hidden"), std::string::npos);
    EXPECT_FALSE(one.has_more());
}

TEST_F(ReaderTest, ServerSentEvents) {
    rename("a");
    Reader one = reader({.view = View::full, .form = Reader::Form::sse, .snapshot = true});
    EXPECT_EQ(take(one), "id: 101\nevent: ready\ndata: " + record("ready", 101) + R"(,"vms":[)" + machine() + "]}\n\n");
    rename("b");
    EXPECT_EQ(take(one), "id: 102\nevent: modify\ndata: " + line(102) + "\n");
    EXPECT_EQ(*one.heartbeat(at), ": heartbeat\n\n");
}

}  // namespace
}  // namespace triton::info
