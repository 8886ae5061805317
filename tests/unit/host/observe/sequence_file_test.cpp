#include "host/observe/sequence_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace triton::observe {
namespace {

class SequenceFileTest : public testing::Test {
protected:
    void TearDown() override { std::filesystem::remove_all(directory_); }
    void write(std::string const& text) const {
        std::filesystem::create_directories(directory_);
        std::ofstream(path_) << text;
    }

    std::string directory_ = testing::TempDir() + "sequence-" + std::to_string(::getpid());
    std::string path_ = directory_ + "/vminfod/../sequence";
};

TEST_F(SequenceFileTest, NoLifeUsesANumberTwice) {
    path_ = directory_ + "/sequence";
    EXPECT_EQ(SequenceFile(path_).begin(7).value(), 0U);
    EXPECT_EQ(SequenceFile(path_).begin(7).value(), 1'000'000U);
    SequenceFile file(path_);
    EXPECT_EQ(file.begin(7).value(), 2'000'000U);
    ASSERT_TRUE(file.keep_ahead(2'900'000));
    EXPECT_EQ(SequenceFile(path_).begin(7).value(), 3'900'000U);
}

TEST_F(SequenceFileTest, GarbageIsNotANumber) {
    path_ = directory_ + "/sequence";
    for (std::string const text : {"", "12", "-3\n", "1e9\n", "99999999999999999999\n", "12\n13\n"}) {
        write(text);
        EXPECT_EQ(SequenceFile(path_).begin(1'700'000'000'000'000).value(), 1'700'000'000'000'000U) << text;
    }
}

TEST_F(SequenceFileTest, SaysThatItCannotBeKept) {
    write("");
    path_ = directory_ + "/sequence/sequence";
    write("");
    std::ofstream(directory_ + "/sequence") << "a file";
    EXPECT_FALSE(SequenceFile(path_).begin(7));
}

}  // namespace
}  // namespace triton::observe
