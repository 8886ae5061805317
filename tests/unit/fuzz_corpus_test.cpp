// Replays the corpora of the fuzz targets, findings included, in every build: FUZZ_CORPUS_DIR/<target>/*.

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

extern "C" int process_configuration_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int environment_file_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int config_values_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int template_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int screen_modes_fuzz(std::uint8_t const* data, std::size_t size);
extern "C" int varlink_fuzz(std::uint8_t const* data, std::size_t size);

namespace {

using Target = int (*)(std::uint8_t const*, std::size_t);

std::string current_file;

/// A broken invariant aborts; say with which file.
extern "C" void name_current_file(int) {
    (void)!::write(STDERR_FILENO, current_file.data(), current_file.size());
    (void)!::write(STDERR_FILENO, "\n", 1);
}

std::size_t replay(std::string const& name, Target target) {
    auto* const previous = std::signal(SIGABRT, name_current_file);
    std::size_t count = 0;
    for (auto const& entry : std::filesystem::directory_iterator(std::string(FUZZ_CORPUS_DIR) + "/" + name)) {
        current_file = entry.path();
        std::ifstream file(current_file, std::ios::binary);
        std::vector<char> const bytes{std::istreambuf_iterator<char>(file), {}};
        EXPECT_TRUE(file.good()) << "cannot read " << current_file;
        EXPECT_EQ(target(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size()), 0);
        ++count;
    }
    std::signal(SIGABRT, previous);
    return count;
}

TEST(FuzzCorpus, ProcessConfiguration) { EXPECT_GE(replay("process_configuration", process_configuration_fuzz), 10U); }
TEST(FuzzCorpus, ConfigValues) { EXPECT_GE(replay("config_values", config_values_fuzz), 15U); }
TEST(FuzzCorpus, EnvironmentFile) { EXPECT_GE(replay("environment_file", environment_file_fuzz), 5U); }
TEST(FuzzCorpus, ScreenModes) { EXPECT_GE(replay("screen_modes", screen_modes_fuzz), 10U); }
TEST(FuzzCorpus, Template) { EXPECT_GE(replay("template", template_fuzz), 5U); }
TEST(FuzzCorpus, Varlink) { EXPECT_GE(replay("varlink", varlink_fuzz), 10U); }

}  // namespace
