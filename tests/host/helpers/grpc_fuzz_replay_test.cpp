// Replays the corpora of the fuzz targets of gRPC and of CRI, findings included.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

extern "C" int grpc_session_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int cri_text_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int stream_fuzz(std::uint8_t const* data, std::size_t size);

namespace {

void replay(char const* corpus, int (*target)(std::uint8_t const*, std::size_t)) {
    std::size_t count = 0;
    for (auto const& entry : std::filesystem::directory_iterator(std::string(FUZZ_CORPUS_DIR) + "/" + corpus)) {
        SCOPED_TRACE(entry.path());
        std::ifstream file(entry.path(), std::ios::binary);
        std::vector<char> const bytes{std::istreambuf_iterator<char>(file), {}};
        EXPECT_EQ(target(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size()), 0);
        ++count;
    }
    EXPECT_GE(count, 10U);
}

TEST(GrpcFuzzCorpus, Session) { replay("grpc_session", grpc_session_fuzz); }
TEST(CriFuzzCorpus, Text) { replay("cri_text", cri_text_fuzz); }
TEST(CriFuzzCorpus, Streams) { replay("stream", stream_fuzz); }

}  // namespace
