#include "host/image/catalog.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/image/authfile.h"

namespace triton::image {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string digest(char c) { return "sha256:" + std::string(64, c); }
Uuid uuid(char c) { return *Uuid::parse(std::string(8, c) + "-1889-11e7-b4c5-3f3bdfc9b88b"); }

class CatalogTest : public testing::Test {
protected:
    CatalogTest() {
        std::string path = testing::TempDir() + "catalog.XXXXXX";
        directory_ = ::mkdtemp(path.data());
        database_.emplace(*content::Database::open(directory_ + "/content.db"));
        catalog_.emplace(*Catalog::open(*database_));
    }
    ~CatalogTest() override {
        catalog_.reset();
        database_.reset();
        std::filesystem::remove_all(directory_);
    }

    static Image image(char c, std::optional<Uuid> origin = {}) {
        Manifest manifest = *make_manifest({.uuid = uuid(c), .name = "n", .version = "1", .origin = std::move(origin)});
        return Image{.manifest = std::move(manifest), .tree = "layers/x", .source = "here", .size = 5};
    }

    std::string directory_;
    std::optional<content::Database> database_;
    std::optional<Catalog> catalog_;
};

TEST_F(CatalogTest, KeepsImages) {
    ASSERT_TRUE(catalog_->add(image('a'), std::vector<Layer>{{digest('1'), digest('2')}}));
    ASSERT_TRUE(catalog_->add(image('b', uuid('a')), {}));
    EXPECT_EQ(catalog_->list()->size(), 2U);
    Image const one = *catalog_->get(uuid('a'));
    EXPECT_EQ(one.manifest.title(), "n@1");
    EXPECT_EQ(one.clones, 1U);
    EXPECT_EQ(one.size, 5U);
    EXPECT_THAT(*catalog_->layers(uuid('a')), ElementsAre(Layer{digest('1'), digest('2')}));
    EXPECT_THAT(*catalog_->children(uuid('a')), ElementsAre(uuid('b')));
    EXPECT_THAT(*catalog_->images_with(digest('1')), ElementsAre(uuid('a')));
    EXPECT_THAT(*catalog_->images_with(digest('2')), ElementsAre(uuid('a')));
    EXPECT_EQ(catalog_->get(uuid('c')).error().text(), "image " + uuid('c').text() + " is not installed");
    EXPECT_EQ(catalog_->add(image('a'), {}).error().kind, ErrorKind::exists);
    ASSERT_TRUE(catalog_->set_pinned(uuid('b'), true));
    EXPECT_TRUE(catalog_->get(uuid('b'))->is_pinned);
    EXPECT_EQ(catalog_->set_pinned(uuid('c'), true).error().kind, ErrorKind::not_found);
    ASSERT_TRUE(catalog_->remove(uuid('a')));
    EXPECT_FALSE(*catalog_->has(uuid('a')));
    EXPECT_THAT(*catalog_->layers(uuid('a')), IsEmpty());
}

TEST_F(CatalogTest, CountsWhoHoldsAnImage) {
    ASSERT_TRUE(catalog_->add(image('a'), {}));
    EXPECT_EQ(catalog_->hold(uuid('c'), "machine 1").error().kind, ErrorKind::not_found);
    ASSERT_TRUE(catalog_->hold(uuid('a'), "machine 2"));
    ASSERT_TRUE(catalog_->hold(uuid('a'), "machine 1"));
    ASSERT_TRUE(catalog_->hold(uuid('a'), "machine 1"));
    EXPECT_THAT(*catalog_->holders(uuid('a')), ElementsAre("machine 1", "machine 2"));
    EXPECT_EQ(catalog_->get(uuid('a'))->clones, 2U);
    ASSERT_TRUE(catalog_->release(uuid('a'), "machine 1"));
    EXPECT_THAT(*catalog_->holders(uuid('a')), ElementsAre("machine 2"));
}

TEST_F(CatalogTest, KeepsWhatATagMeans) {
    ASSERT_TRUE(catalog_->add(image('a'), {}));
    EXPECT_FALSE(*catalog_->latch("h/x:1"));
    ASSERT_TRUE(catalog_->set_latch({"h/x:1", digest('1'), uuid('a')}));
    ASSERT_TRUE(catalog_->set_latch({"h/x:1", digest('2'), uuid('a')}));
    EXPECT_EQ((*catalog_->latch("h/x:1"))->digest, digest('2'));
    EXPECT_EQ(catalog_->latches()->size(), 1U);
    ASSERT_TRUE(catalog_->remove(uuid('a')));
    EXPECT_FALSE(*catalog_->latch("h/x:1"));
}

TEST_F(CatalogTest, KnowsWhichTreesAreNeeded) {
    std::vector<std::string> const chains{digest('1'), digest('2')};
    IntentId const first = *catalog_->begin_intent("command 1", "import", uuid('a'), chains);
    IntentId const second = *catalog_->begin_intent("command 2", "deletion", std::nullopt, {});
    EXPECT_FALSE(*catalog_->is_needed(digest('1'), first));
    EXPECT_TRUE(*catalog_->is_needed(digest('1'), second));
    ASSERT_TRUE(catalog_->add_to_intent(second, digest('1')));
    EXPECT_TRUE(*catalog_->is_needed(digest('1'), first));
    EXPECT_THAT(*catalog_->intents(),
                ElementsAre(Intent{first, "command 1", "import", uuid('a'), chains},
                            Intent{second, "command 2", "deletion", std::nullopt, {digest('1')}}));
    ASSERT_TRUE(catalog_->end_intent(second));
    EXPECT_FALSE(*catalog_->is_needed(digest('1'), first));
    ASSERT_TRUE(catalog_->add(image('a'), std::vector<Layer>{{digest('9'), digest('1')}}));
    EXPECT_TRUE(*catalog_->is_needed(digest('1'), first));
    ASSERT_TRUE(catalog_->end_intent(first));
    EXPECT_THAT(*catalog_->intents(), IsEmpty());
}

TEST_F(CatalogTest, OfTwoIntentsWithOneTreeTheLastHasIt) {
    std::vector<std::string> const chains{digest('1')};
    IntentId const first = *catalog_->begin_intent("command 1", "deletion", std::nullopt, chains);
    IntentId const second = *catalog_->begin_intent("command 2", "deletion", std::nullopt, chains);
    EXPECT_TRUE(*catalog_->leave_to_others(digest('1'), first));
    EXPECT_FALSE(*catalog_->leave_to_others(digest('1'), second));
    EXPECT_THAT(*catalog_->intents(), ElementsAre(Intent{first, "command 1", "deletion", std::nullopt, {}},
                                                  Intent{second, "command 2", "deletion", std::nullopt, chains}));
    EXPECT_TRUE(*catalog_->has_intent(first));
    ASSERT_TRUE(catalog_->end_intent(first));
    EXPECT_FALSE(*catalog_->has_intent(first));
}

TEST(Authfile, TheLongestKeyCounts) {
    constexpr std::string_view text =
        R"({"auths":{"h.example":{"username":"host","password":"p"},"h.example/team":{"username":"team","password":"p"},)"
        R"("h.example/team/app/":{"username":"app","password":"p"},"h.example/v1/":{"username":"old","password":"p"},)"
        R"("docker.io/team":{"username":"hub","password":"p"},"index.docker.io":{"username":"all","password":"p"},)"
        R"("only.example/x":{"username":"x","password":"p"},"i.example":{"identitytoken":"idt","auth":"MDA6"}}})";
    auto const of = [&](std::string_view name) {
        auto const found = credential_in(text, "f", name, "host");
        return found && *found ? (*found)->user : "none";
    };
    EXPECT_EQ(of("h.example/team/app"), "app");
    EXPECT_EQ(of("h.example/team/app/more"), "app");
    EXPECT_EQ(of("h.example/team/apple"), "team");
    EXPECT_EQ(of("h.example/teams"), "host");
    EXPECT_EQ(of("h.example"), "host");
    EXPECT_EQ(of("H.EXAMPLE:443/team/x"), "team");
    EXPECT_EQ(of("docker.io/team/x"), "hub");
    EXPECT_EQ(of("docker.io/library/alpine"), "all");
    EXPECT_EQ(of("only.example/x"), "x");
    EXPECT_EQ(of("only.example/y"), "none");
    EXPECT_EQ(of("only.example"), "none");
    EXPECT_EQ((*credential_in(text, "f", "i.example/x", "host"))->identity_token, "idt");
}

TEST(Authfile, HasCredentialsOfARegistry) {
    // "user:secret", "a:b:c"
    constexpr std::string_view text =
        R"({"auths":{"https://index.docker.io/v1/":{"auth":"dXNlcjpzZWNyZXQ="},"h:5000":{"auth":"YTpiOmM="},)"
        R"("t":{"registrytoken":"tok"},"bad":{"auth":"!!"},"helper":{},"https://Reg.example:443/v2/":{"auth":"YTpi"}},)"
        R"("credsStore":"x"})";
    auto const of = [&](std::string_view registry) { return credential_in(text, "f", registry, "host"); };
    ASSERT_TRUE(of("docker.io"));
    EXPECT_EQ((*of("docker.io"))->user, "user");
    EXPECT_EQ((*of("docker.io"))->password, "secret");
    EXPECT_EQ((*of("docker.io"))->host, "host");
    EXPECT_EQ((*of("h:5000"))->user, "a");
    EXPECT_EQ((*of("h:5000"))->password, "b:c");
    EXPECT_EQ((*of("t"))->token, "tok");
    EXPECT_FALSE(*of("other"));
    EXPECT_FALSE(*of("helper"));  // its password is elsewhere
    for (std::string_view const spelling : {"reg.example", "REG.example", "reg.example:443"})
        EXPECT_EQ((*of(spelling))->password, "b") << spelling;
    EXPECT_FALSE(*of("reg.example:5000"));
    EXPECT_EQ(of("bad").error().text(), "f is not an authfile");
    EXPECT_THAT(of("bad").error().details, ElementsAre("auths.bad.auth: is not USER:PASSWORD in Base64"));
    EXPECT_EQ(credential_in("[1]", "f", "x", "h").error().text(), "f is not an authfile");
    // "user:secret" and two bytes of zero; "us", a zero, "er:secret"
    EXPECT_EQ((*credential_in(R"({"auths":{"h":{"auth":"dXNlcjpzZWNyZXQAAA=="}}})", "f", "h", "h"))->password,
              "secret");
    EXPECT_THAT(credential_in(R"({"auths":{"h":{"auth":"dXMAZXI6c2VjcmV0"}}})", "f", "h", "h").error().details,
                ElementsAre("auths.h.auth: has a control character"));
}

}  // namespace
}  // namespace triton::image
