#include "lib/command/mistakes.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace triton::command {
namespace {

/// What is said of a line of a program with the command list.
std::string said(std::vector<std::string> const& words) {
    CLI::App app{"Some machines", "vmadm"};
    std::string order, uuid;
    int seconds = 0, lines = 0;
    bool is_debug = false;
    app.add_flag("-d,--debug", is_debug, "Prints more.");
    CLI::App* const list = app.add_subcommand("list", "prints machines");
    list->fallthrough();
    list->add_option("-o,--order", order, "Columns.");
    list->add_option("-t", seconds, "Seconds.")->check(CLI::Range(0, 86400));
    list->add_option("--lines", lines, "Lines.");
    CLI::App* const get = app.add_subcommand("get", "prints one");
    get->add_option("uuid", uuid, "A machine.")->required();
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (CLI::ParseError const& error) {
        return mistake(app, error).text();
    }
    return "";
}

TEST(Mistakes, ALineThatIsRefusedIsExplained) {
    EXPECT_EQ(said({"list", "-o", "uuid"}), "");
    EXPECT_EQ(said({"list", "--ordre", "uuid"}), "list has no option --ordre; did you mean --order?");
    EXPECT_EQ(said({"list", "--debgu"}), "list has no option --debgu; did you mean --debug?");
    EXPECT_EQ(said({"list", "--frobnicate=1"}), "list has no option --frobnicate; vmadm list --help lists them");
    EXPECT_EQ(said({"list", "-x"}), "list has no option -x; vmadm list --help lists them");
    EXPECT_EQ(said({"list", "x", "y"}), "list: too many arguments: \"x\"");
    EXPECT_EQ(said({"list", "-t", "abc"}), "-t: \"abc\" is not a number from 0 to 86400");
    EXPECT_EQ(said({"list", "-t", "-1"}), "-t: \"-1\" is not a number from 0 to 86400");
    EXPECT_EQ(said({"list", "--lines", "x"}), "--lines: \"x\" is not a number");
    EXPECT_EQ(said({"list", "--order"}), "--order needs a value");
    EXPECT_EQ(said({"get"}), "uuid is required");
}

}  // namespace
}  // namespace triton::command
