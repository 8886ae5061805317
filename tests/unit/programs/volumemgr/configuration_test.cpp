#include "programs/volumemgr/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/volumemgr/options.h"

namespace triton::program {

TEST(VolumesConfiguration, IsOneSectionOfTheDocument) {
    auto const read = parse_volumes_configuration(
        R"({"storage": {}, "cri": {}, "volumes": {"idle": "5s", "collect_after": "2h", "keep_content_for": "0s", "retry_after": "1m",
            "workers": 2, "stuck_after": "1s", "reserve": "1Gi", "overcommit": 1.5, "vault": {"path": "/v"}}})",
        "x");
    ASSERT_TRUE(read) << read.error().text();
    VolumesConfiguration wanted{.idle = milliseconds(5000),
                                .collect_after = milliseconds(7'200'000),
                                .keep_content_for = milliseconds(0),
                                .retry_after = milliseconds(60'000),
                                .workers = 2,
                                .stuck_after = milliseconds(1000),
                                .reserve = 1 << 30,
                                .overcommit = 1.5,
                                .has_vault = true};
    EXPECT_EQ(*read, wanted);
    EXPECT_EQ(*parse_volumes_configuration("{}", "x"), VolumesConfiguration());
}

TEST(VolumesConfiguration, SaysWhatIsWrongWhere) {
    for (auto const& [section, place] :
         {std::pair(R"({"worker": 2})", "volumes: unknown key"), std::pair(R"({"workers": 0})", "volumes.workers"),
          std::pair(R"({"stuck_after": "0s"})", "volumes.stuck_after"),
          std::pair(R"({"overcommit": 0})", "volumes.overcommit"), std::pair(R"({"vault": "/v"})", "volumes.vault"),
          std::pair(R"({"reserve": "much"})", "volumes.reserve")}) {
        auto const read = parse_volumes_configuration(R"({"volumes": )" + std::string(section) + "}", "/x");
        ASSERT_FALSE(read) << section;
        EXPECT_EQ(read.error().text(), "/x is not a configuration");
        EXPECT_THAT(read.error().details, testing::ElementsAre(testing::HasSubstr(place)));
    }
}

TEST(VolumesConfiguration, OptionsGoBeforeIt) {
    VolumesConfiguration const configuration{.collect_after = milliseconds(1), .retry_after = milliseconds(2)};
    ManagerOptions options;
    EXPECT_EQ(options.settings(configuration).collect_after, milliseconds(1));
    EXPECT_EQ(options.settings({}).collect_after, milliseconds(3'600'000));
    EXPECT_EQ(options.idle_time({}), std::chrono::seconds(60));
    options.collect_after = milliseconds(3);
    EXPECT_EQ(options.settings(configuration).collect_after, milliseconds(3));
    EXPECT_EQ(options.settings(configuration).retry.server, milliseconds(2));
}

}  // namespace triton::program
