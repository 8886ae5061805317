// Replays the corpora of the host's fuzz targets, findings included: FUZZ_CORPUS_DIR/<target>/*.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

extern "C" int answer_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int diff_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int disk_header_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int document_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int info_answer_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int messages_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int metadata_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int published_volumes_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int query_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int signature_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int tar_fuzz(std::uint8_t const* data, std::size_t size);

namespace {

std::size_t replay(std::string const& name, int (*target)(std::uint8_t const*, std::size_t)) {
    std::size_t count = 0;
    for (auto const& entry : std::filesystem::directory_iterator(std::string(FUZZ_CORPUS_DIR) + "/" + name)) {
        SCOPED_TRACE(entry.path());
        std::ifstream file(entry.path(), std::ios::binary);
        std::vector<char> const bytes{std::istreambuf_iterator<char>(file), {}};
        EXPECT_EQ(target(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size()), 0);
        ++count;
    }
    return count;
}

TEST(HostFuzzCorpus, Answer) { EXPECT_GE(replay("answer", answer_fuzz), 10U); }
TEST(HostFuzzCorpus, Diff) { EXPECT_GE(replay("diff", diff_fuzz), 12U); }
TEST(HostFuzzCorpus, DiskHeader) { EXPECT_GE(replay("disk_header", disk_header_fuzz), 18U); }
TEST(HostFuzzCorpus, Document) { EXPECT_GE(replay("document", document_fuzz), 30U); }
TEST(HostFuzzCorpus, InfoAnswer) { EXPECT_GE(replay("info_answer", info_answer_fuzz), 12U); }
TEST(HostFuzzCorpus, Messages) { EXPECT_GE(replay("messages", messages_fuzz), 13U); }
TEST(HostFuzzCorpus, Metadata) { EXPECT_GE(replay("metadata", metadata_fuzz), 6U); }
TEST(HostFuzzCorpus, PublishedVolumes) { EXPECT_GE(replay("published_volumes", published_volumes_fuzz), 20U); }
TEST(HostFuzzCorpus, Query) { EXPECT_GE(replay("query", query_fuzz), 11U); }
TEST(HostFuzzCorpus, Signature) { EXPECT_GE(replay("signature", signature_fuzz), 5U); }
TEST(HostFuzzCorpus, Tar) { EXPECT_GE(replay("tar", tar_fuzz), 40U); }

}  // namespace
