#include "host/machine/names.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::machine {
namespace {

Uuid uuid(char last) { return *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-00000000000" + std::string(1, last)); }

std::vector<InstalledImage> const images{{uuid('1'), "debian", "12.6", "2026-01-01T00:00:00Z"},
                                         {uuid('2'), "debian", "12.7", "2026-03-01T00:00:00Z"},
                                         {uuid('3'), "alpine", "3.20", "2026-02-01T00:00:00Z"},
                                         {*Uuid::parse("77777777-0c2f-4a44-8c1f-000000000004"), "alpine", "3.20", ""}};

std::string found(std::string_view name) {
    auto const image = find_image(name, images);
    return image ? image->text() : image.error().text();
}

TEST(ImageNames, AnImageHasSeveral) {
    EXPECT_EQ(found(uuid('1').text()), uuid('1').text());
    EXPECT_EQ(found("debian"), uuid('2').text()) << "the one that was published last";
    EXPECT_EQ(found("debian@12.6"), uuid('1').text());
    EXPECT_EQ(found("7777"), "77777777-0c2f-4a44-8c1f-000000000004");
    EXPECT_EQ(found("5e6a4c11-0c2f-4a44-8c1f-000000000009"), "5e6a4c11-0c2f-4a44-8c1f-000000000009")
        << "who asks for it says that it is not there";
}

TEST(ImageNames, WhatIsNotThereIsToldWithWhatIs) {
    auto const missing = find_image("debain@12", images);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().text(), "image debain@12 is not installed; did you mean \"debian\"?");
    EXPECT_THAT(missing.error().details, testing::Contains("installed: " + uuid('3').text() + " alpine@3.20"));
    EXPECT_EQ(found("777"), "image 777 is not installed") << "less than four characters";
    EXPECT_THAT(find_image("x", {}).error().text(), testing::HasSubstr("imgadm import"));
}

TEST(ImageNames, WhatMeansSeveralIsRefused) {
    auto const twice = find_image("alpine@3.20", images);
    ASSERT_FALSE(twice);
    EXPECT_EQ(twice.error().text(), "alpine@3.20 names 2 images");
    EXPECT_EQ(twice.error().details.size(), 2U);
    EXPECT_EQ(found("5e6a4c11"), "5e6a4c11 names 3 images");
}

}  // namespace
}  // namespace triton::machine
