// Replays the corpus of agent_fuzz, findings included.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

extern "C" int agent_fuzz(std::uint8_t const* data, std::size_t size);

namespace {

TEST(FuzzCorpus, Agent) {
    std::size_t count = 0;
    for (auto const& entry : std::filesystem::directory_iterator(FUZZ_CORPUS_DIR "/agent")) {
        std::ifstream file(entry.path(), std::ios::binary);
        std::vector<char> const bytes{std::istreambuf_iterator<char>(file), {}};
        SCOPED_TRACE(entry.path().string());
        EXPECT_EQ(agent_fuzz(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size()), 0);
        ++count;
    }
    EXPECT_GE(count, 9U);
}

}  // namespace
