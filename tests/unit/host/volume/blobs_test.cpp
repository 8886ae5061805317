#include "host/volume/blobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::volume {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char root[] = "sha256:r";

TreeStatus tree(std::string id, State state, std::string digest = root) {
    return {.id = std::move(id), .state = state, .digest = std::move(digest), .bytes = 5, .total_bytes = 10};
}

BlobStatus blob(std::string digest, std::string type, State state = State::loaded) {
    return {.digest = std::move(digest), .media_type = std::move(type), .state = state, .bytes = 1, .total_bytes = 2};
}

TEST(Blobs, TheRootIsAsItsContentTree) {
    Blobs blobs;
    blobs.follow(tree("a", State::initial, ""), "disk.raw", true);
    EXPECT_THAT(blobs.take_changed(), IsEmpty()) << "what it is, is not known yet";
    blobs.follow(tree("a", State::downloading), "disk.raw", true);
    EXPECT_THAT(blobs.take_changed(), ElementsAre(root));
    EXPECT_THAT(blobs.take_changed_contents(), ElementsAre("a"));
    BlobStatus const expected{.digest = root,
                              .name = "disk.raw",
                              .state = State::downloading,
                              .bytes = 5,
                              .total_bytes = 10,
                              .references = 1};
    EXPECT_EQ(blobs.find(root), expected);
    TreeStatus more = tree("a", State::downloading);
    more.bytes = 6;
    blobs.follow(more, "disk.raw", true);
    EXPECT_THAT(blobs.take_changed(), ElementsAre(root));
    EXPECT_THAT(blobs.take_changed_contents(), IsEmpty()) << "bytes alone are no news for volumes";
}

TEST(Blobs, OneBlobOfSeveralContentTreesIsAsFarAsTheFirst) {
    Blobs blobs;
    blobs.follow(tree("a", State::loaded), "a", true);
    TreeStatus failing = tree("b", State::downloading);
    failing.error = Failure{FailureClass::server, "no"};
    blobs.follow(failing, "b", true);
    EXPECT_EQ(blobs.find(root)->state, State::loaded);
    EXPECT_EQ(blobs.find(root)->references, 2U);
    EXPECT_FALSE(blobs.find(root)->error);
    blobs.forget("a");
    EXPECT_EQ(blobs.find(root)->state, State::downloading);
    EXPECT_TRUE(blobs.find(root)->error);
    blobs.take_changed();
    blobs.forget("b");
    EXPECT_THAT(blobs.take_changed(), ElementsAre(root));
    EXPECT_EQ(blobs.find(root), std::nullopt);
}

TEST(Blobs, AnImageIsListedRootFirstAndLayersLast) {
    Blobs blobs;
    blobs.follow(tree("a", State::downloading), "a:1", false);
    blobs.note("a", blob("sha256:b", "application/vnd.oci.image.layer.v1.tar+gzip", State::downloading));
    blobs.set("a", {blob("sha256:a", "application/vnd.oci.image.layer.v1.tar+gzip"), blob("sha256:c", "json"),
                    blob(root, "manifest")});
    std::vector<std::string> digests;
    for (BlobStatus const& one : blobs.of("a"))
        digests.push_back(one.digest);
    EXPECT_THAT(digests, ElementsAre(root, "sha256:c", "sha256:a")) << "what it does not keep is not listed";
    EXPECT_EQ(blobs.find(root)->state, State::downloading) << "the root is as the content tree";
    blobs.follow(tree("a", State::loaded), "a:1", false);
    for (BlobStatus const& one : blobs.of("a"))
        EXPECT_EQ(one.state, State::loaded);
}

TEST(Blobs, AnotherDigestIsOtherContent) {
    Blobs blobs;
    blobs.follow(tree("a", State::loaded), "a", false);
    blobs.set("a", {blob(root, "manifest"), blob("sha256:b", "layer")});
    blobs.take_changed();
    blobs.follow(tree("a", State::resolved_tag, "sha256:other"), "a", false);
    EXPECT_THAT(blobs.take_changed(), ElementsAre("sha256:b", "sha256:other", root));
    EXPECT_EQ(blobs.of("a").size(), 1U);
    blobs.note("gone", blob("sha256:b", "layer"));
    EXPECT_EQ(blobs.find("sha256:b"), std::nullopt) << "a late word of a content tree that was given up";
}

}  // namespace
}  // namespace triton::volume
