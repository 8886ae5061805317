#include "sidecar/summary.h"

#include <gtest/gtest.h>

namespace triton::sidecar {
namespace {

TEST(JsonSummary, OneLine) {
    EXPECT_EQ(json_summary({}), "{\"files\":[],\"errors\":[]}\n");
    Round round;
    round.files = {{"/out/a\"b", {files::Outcome::copied, 3, "12ab"}},
                   {"/out/\xff", {files::Outcome::reused, 0, "34cd"}}};
    round.errors = {"cannot write /out/c: No space left on device", "x"};
    EXPECT_EQ(json_summary(round), R"({"files":[{"path":"/out/a\"b","bytes":3,"sha256":"12ab","result":"copied"},)"
                                   "{\"path\":\"/out/\uFFFD\",\"bytes\":0,\"sha256\":\"34cd\",\"result\":\"reused\"}],"
                                   "\"errors\":[\"cannot write /out/c: No space left on device\",\"x\"]}\n");
}

TEST(ProgressText, SharesAndSpeed) {
    constexpr std::uint64_t mebibyte = 1 << 20;
    EXPECT_EQ(progress_text("f", 512 * mebibyte, 1024 * mebibyte, milliseconds(2000)),
              "f  49 %  512 MiB of 1024 MiB  256 MiB/s");
    EXPECT_EQ(progress_text("f", 1024 * mebibyte, 1024 * mebibyte, milliseconds(0)),
              "f  100 %  1024 MiB of 1024 MiB  1024000 MiB/s");
    EXPECT_EQ(progress_text("f", 0, 0, milliseconds(1)), "f  100 %  0 MiB of 0 MiB  0 MiB/s");
    EXPECT_EQ(progress_text("f", 1, ~0ULL, milliseconds(1)), "f  0 %  0 MiB of 17592186044415 MiB  0 MiB/s");
}

}  // namespace
}  // namespace triton::sidecar
