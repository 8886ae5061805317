#include "lib/log/log.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::log {

namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

/// What a log writes of one record with two lists.
std::string written(LogFormat format, std::vector<std::string> const& errors,
                    std::vector<std::string> const& warnings) {
    UniqueFd const file{::memfd_create("log", MFD_CLOEXEC)};
    Log log({.format = format, .path = {}, .console = file.get()});
    log.write(LogLevel::error, "configuration-rejected", "it is rejected:",
              {{"errors", std::span<std::string const>(errors)}, {"warnings", std::span<std::string const>(warnings)}});
    log.flush();
    std::string text(1 << 20, '\0');
    ssize_t const size = ::pread(file.get(), text.data(), text.size(), 0);
    text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return text;
}

TEST(Log, AListIsWrittenBelowTheMessageOrAsAMember) {
    EXPECT_THAT(written(LogFormat::text, {"a", "b\n"}, {}), EndsWith("error   it is rejected:\n    a\n    b\\x0a\n"));
    EXPECT_THAT(written(LogFormat::json, {"a", "b\n"}, {}),
                EndsWith("\"message\":\"it is rejected:\",\"errors\":[\"a\",\"b\\n\"],\"warnings\":[]}\n"));
}

/// Otherwise nobody would learn why a configuration with many oddities was rejected.
TEST(Log, ARecordWithLongListsIsCutOffAndNotLost) {
    for (LogFormat const format : {LogFormat::text, LogFormat::json}) {
        std::string const many =
            written(format, {"the reason"}, std::vector<std::string>(20'000, "an oddity of a file"));
        EXPECT_THAT(many, HasSubstr("the reason"));
        EXPECT_THAT(many, testing::ContainsRegex("and 1[0-9]{4} more"));
        EXPECT_THAT(many, Not(HasSubstr("dropped")));
        std::vector<std::string> const longest(3, std::string(1 << 20, '\1'));
        std::string const large = written(format, longest, longest);
        EXPECT_THAT(large, HasSubstr("it is rejected:"));
        EXPECT_THAT(large, Not(HasSubstr("dropped")));
    }
}

}  // namespace

}  // namespace triton::log
