#include "host/info/query.h"

#include "host/info/cache.h"
#include "tests/unit/host/info/samples.h"

namespace triton::info {
namespace {

class QueryTest : public testing::Test {
protected:
    Feed feed{0};
    Cache cache{feed};

    void SetUp() override {
        auto const add = [this](std::string_view uuid, std::string_view members) {
            cache.apply(uuid, document(members, uuid), 0);
        };
        add(first_uuid, R"("alias":"web0","tags":{"role":"www"},"customer_metadata":{"k":"secret"},)"
                        R"("nics":[{"mac":"02:00:00:00:00:01","nic_tag":"a","ip":"10.0.0.1"}],)");
        add(second_uuid, R"("alias":"db0",)");
        cache.apply("odd", make_broken("odd", {}), 0);
    }

    /// What is found, one a line, or the error.
    std::string ask(Query::Pairs const& pairs, View view = View::open) const {
        static constexpr auto others = std::to_array<std::string_view>({"fresh"});
        auto const query = Query::parse(pairs, view, others);
        if (!query) return query.error().text();
        std::string found;
        for (auto const& [name, document] : cache.all()) {
            if (query->matches(*document)) found += *query->text(*document) + "\n";
        }
        return found;
    }
};

TEST_F(QueryTest, FindsWhatLookupFinds) {
    EXPECT_EQ(ask({{"alias", "web0"}, {"fields", "alias"}, {"fresh", "true"}}), "{\"alias\":\"web0\"}\n");
    EXPECT_EQ(ask({{"alias", "~^WEB|^D"}, {"fields", "alias"}}), "{\"alias\":\"web0\"}\n{\"alias\":\"db0\"}\n");
    EXPECT_EQ(ask({{"nics.*.ip", "10.0.0.1"}, {"fields", "nics.0.mac,tags.role,hostname"}}),
              "{\"nics.0.mac\":\"02:00:00:00:00:01\",\"tags.role\":\"www\"}\n");
    EXPECT_EQ(ask({{"state", "unreadable"}, {"fields", "uuid"}}),
              R"({"uuid":"odd","zonename":"odd","state":"unreadable",)"
              R"("error":"its files cannot be read; the Unix socket says why"})"
              "\n");
    EXPECT_EQ(ask({{"alias", "web0"}}), *cache.find(first_uuid)->text(View::open) + "\n");
    EXPECT_EQ(ask({{"alias", "web0"}}, View::full), *cache.find(first_uuid)->text(View::full) + "\n");
    EXPECT_EQ(ask({{"customer_metadata.k", "secret"}, {"fields", "alias"}}, View::full), "{\"alias\":\"web0\"}\n");
}

TEST_F(QueryTest, SecretsAreRefused) {
    for (std::string_view const name : {"customer_metadata", "customer_metadata.k", "internal_metadata.x", "launch"}) {
        std::string const property(name.substr(0, name.find('.')));
        EXPECT_EQ(ask({{std::string(name), "~."}}), property + " needs the Unix socket");
        EXPECT_EQ(ask({{"fields", std::string(name)}}), property + " needs the Unix socket");
    }
    EXPECT_EQ(ask({{"launch_status", "~x"}}), "launch_status needs the Unix socket");
    EXPECT_EQ(ask({{"alias", "db0"}, {"fields", "launch_status"}}), "{}\n");
    EXPECT_EQ(Query::parse({{"launch", "x"}}, View::open).error().kind, ErrorKind::denied);
}

TEST_F(QueryTest, MistakesAreErrors) {
    EXPECT_EQ(ask({{"color", "red"}}), "Invalid lookup key: \"color\"");
    EXPECT_EQ(ask({{"fields", "color"}}), "Invalid field key: \"color\"");
    EXPECT_EQ(ask({{"alias", "~("}}), "alias: \"(\" is not a regular expression");
    EXPECT_EQ(ask(Query::Pairs(65, {"alias", "x"})), "there are more than 64 conditions");
    std::string names = "uuid";
    for (int i = 0; i < 256; ++i)
        names += ",uuid";
    EXPECT_EQ(ask({{"fields", names}}), "there are more than 256 fields");
}

}  // namespace
}  // namespace triton::info
