#include "lib/command/words.h"

#include <array>

#include <gtest/gtest.h>

namespace triton::command {
namespace {

std::size_t place(std::vector<std::string> const& words) {
    static constexpr std::array<std::string_view, 2> valued{"--root", "--socket"};
    return place_of_command(words, valued);
}

TEST(CommandWords, TheCommandStandsBehindTheOptionsOfTheProgram) {
    EXPECT_EQ(place({"list"}), 0);
    EXPECT_EQ(place({"-E", "--root", "/x", "list", "-o", "uuid"}), 3);
    EXPECT_EQ(place({"--root=/x", "list"}), 1);
    EXPECT_EQ(place({"--socket"}), 1) << "its value is missing";
    EXPECT_EQ(place({"-E"}), 1);
    EXPECT_EQ(place({}), 0);
}

TEST(CommandWords, AMistakeIsOneLine) {
    EXPECT_EQ(no_such_command("vmadm", "creat", {"create", "delete"}).text(),
              "there is no command \"creat\"; did you mean \"create\"?");
    EXPECT_EQ(no_such_command("vmadm", "halp", {"create"}).text(),
              "there is no command \"halp\"; did you mean \"help\"?");
    EXPECT_EQ(no_such_command("vmadm", "frobnicate", {"create", "delete"}).text(),
              "there is no command \"frobnicate\"; vmadm --help lists all commands");
    EXPECT_EQ(missing_command("vmadm").text(), "a command is missing; vmadm --help lists all commands");
    EXPECT_EQ(missing_command("vmadm").kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace triton::command
