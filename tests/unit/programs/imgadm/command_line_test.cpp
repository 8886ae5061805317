#include "programs/imgadm/command_line.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/completion/completion.h"
#include "programs/imgadm/failure.h"
#include "programs/imgadm/listing.h"
#include "programs/imgadm/progress_output.h"

namespace triton::program {
namespace {

using testing::HasSubstr;

std::string usage_of(std::vector<std::string> const& words) {
    auto const line = parse_command_line(words);
    return line ? "none" : line.error().error.text();
}

TEST(CommandLine, IsParsed) {
    for (std::vector<std::string> const& words :
         std::vector<std::vector<std::string>>{{"list"},
                                               {"-E", "list", "-H", "-o", "uuid", "name=~x"},
                                               {"list", "-E", "--root", "/x"},
                                               {"import", "docker.io/library/alpine:3.20", "--progress", "json"},
                                               {"import", "-m", "m", "-f", "f"},
                                               {"sources", "-a", "https://x", "-t", "registry", "-k", "-f"},
                                               {"sources", "add", "https://x"},
                                               {"sources", "remove", "https://x"},
                                               {"sources", "list", "-j"},
                                               {"sources"},
                                               {"vacuum", "-n"},
                                               {"gc", "--dry-run"},
                                               {"completion", "bash"}}) {
        auto const line = parse_command_line(words);
        EXPECT_TRUE(line && line->run) << words.front() << ": " << (line ? "" : line.error().error.text());
    }
    EXPECT_EQ(parse_command_line({"--version"})->text.substr(0, 7), "imgadm ");
    EXPECT_THAT(parse_command_line({"--help"})->text, HasSubstr("import"));
    EXPECT_THAT(parse_command_line({"import", "--help"})->text, HasSubstr("--manifest"));
    EXPECT_EQ(parse_command_line({"help"})->text, parse_command_line({"--help"})->text);
    EXPECT_EQ(parse_command_line({"--root", "help", "help", "import"})->text,
              parse_command_line({"import", "--help"})->text);
    EXPECT_TRUE(parse_command_line({"list", "-v"})->options.is_verbose);
    EXPECT_TRUE(parse_command_line({"-E", "list"})->options.has_json_errors);
    EXPECT_EQ(parse_command_line({"list", "--root", "/x"})->options.root, "/x");
}

TEST(CommandLine, TellsWhatIsWrong) {
    EXPECT_EQ(usage_of({"lisst"}), "there is no command \"lisst\"; did you mean \"list\"?");
    EXPECT_EQ(usage_of({"xyzzy"}), "there is no command \"xyzzy\"; imgadm --help lists all commands");
    EXPECT_EQ(usage_of({}), "a command is missing; imgadm --help lists all commands");
    EXPECT_EQ(usage_of({"help", "lisst"}), "there is no command \"lisst\"; did you mean \"list\"?");
    EXPECT_THAT(usage_of({"list", "-j", "-p"}), HasSubstr("excludes"));
    EXPECT_THAT(usage_of({"list", "--wrong"}), HasSubstr("--wrong"));
    EXPECT_THAT(usage_of({"get"}), HasSubstr("image is required"));
    EXPECT_THAT(usage_of({"install", "-m", "x"}), HasSubstr("--file"));
    EXPECT_THAT(usage_of({"sources", "-a", "x", "-d", "y"}), HasSubstr("excludes"));
    EXPECT_THAT(usage_of({"create", "x", "-c", "rar"}), HasSubstr("rar"));
    EXPECT_EQ(parse_command_line({"lisst"}).error().exit, ExitCode::usage);
}

TEST(CommandLine, EveryOptionHasAHelp) {
    GlobalOptions options;
    program::Run run;
    auto const app = command_line_grammar(options, run);
    for (CLI::App const* const command : app->get_subcommands([](CLI::App const*) { return true; })) {
        EXPECT_NE(command->get_description(), "") << command->get_name();
        bool const has_own =
            command->get_name() == "completion" || command->get_name() == "help" || command->get_name() == "reference";
        EXPECT_TRUE(has_own || command->get_footer().starts_with("Examples:\n")) << command->get_name();
        for (CLI::Option const* const option : command->get_options())
            EXPECT_TRUE(!option->get_description().empty() || command->get_name() == "sources")
                << command->get_name() << " " << option->get_name();
    }
}

std::string completion(std::string const& shell) {
    auto const line = parse_command_line({"completion", shell});
    EXPECT_TRUE(line);
    GlobalOptions options;
    program::Run run;
    auto const app = command_line_grammar(options, run);
    return *completion_for(
        *app, shell, {"image", "imgadm list", [](CLI::App const& command) { return command.get_name() == "get"; }});
}

TEST(CommandLine, MakesCompletions) {
    EXPECT_THAT(completion("bash"), HasSubstr("import) words='"));
    EXPECT_THAT(completion("bash"), HasSubstr("--insecure"));
    EXPECT_THAT(completion("bash"), HasSubstr("complete -F _imgadm imgadm\n"));
    EXPECT_THAT(completion("zsh"),
                HasSubstr("#compdef imgadm\n_imgadm_image() { compadd -- ${(f)\"$(imgadm list)\"} }\n"));
    EXPECT_THAT(completion("zsh"), HasSubstr("'*:image:_imgadm_image'"));
    EXPECT_THAT(completion("fish"),
                HasSubstr("complete -c imgadm -f -n '__fish_seen_subcommand_from get' -a '(imgadm list)'\n"));
    EXPECT_EQ(parse_command_line({"completion", "csh"}).error().error.text(),
              "\"csh\" is not one of the shells bash, zsh, fish");
}

TEST(Failures, AreShown) {
    Failure const failure = not_installed(Error{.kind = ErrorKind::not_found,
                                                .attempted = {},
                                                .reason = "image \x1b[2J is not installed",
                                                .details = {"a\nb"}});
    EXPECT_EQ(render_failure(failure, false),
              "imgadm: error (ImageNotInstalled): image \\x1b[2J is not installed\n  a\\x0ab\n");
    EXPECT_EQ(render_failure(failure, true),
              "{\"code\":\"ImageNotInstalled\",\"kind\":\"notFound\",\"exitStatus\":3,"
              "\"message\":\"image \\u001b[2J is not installed\",\"details\":[\"a\\nb\"]}\n");
    EXPECT_EQ(not_installed(Error{.kind = ErrorKind::busy, .attempted = {}, .reason = "x", .details = {}}).exit,
              ExitCode::failed);
}

class ListTest : public testing::Test {
protected:
    static image::Image image(char c, std::string name, std::string version, std::uint64_t size) {
        auto const uuid = *Uuid::parse(std::string(8, c) + "-1889-11e7-b4c5-3f3bdfc9b88b");
        auto manifest = *image::make_manifest({.uuid = uuid,
                                               .name = std::move(name),
                                               .version = std::move(version),
                                               .published_at = "2024-05-0" + std::string(1, c) + "T01:02:03.456Z"});
        return {.manifest = std::move(manifest), .tree = "layers/x", .source = "s", .size = size};
    }
    std::vector<image::Image> const images_{image('2', "web", "1.0", 900), image('1', "al:pine", "3\x1b", 10000)};

    std::string render(ListOptions const& options) {
        auto const text = render_list(listed(images_), options);
        return text ? *text : text.error().text();
    }
};

TEST_F(ListTest, IsATable) {
    EXPECT_EQ(render({}),
              "UUID                                  NAME     VERSION  OS     TYPE   PUB\n"
              "11111111-1889-11e7-b4c5-3f3bdfc9b88b  al:pine  3\\x1b    linux  other  2024-05-01\n"
              "22222222-1889-11e7-b4c5-3f3bdfc9b88b  web      1.0      linux  other  2024-05-02\n");
    EXPECT_EQ(render({.columns = "name,size", .sort = "-name", .has_no_header = true}),
              "web      900\nal:pine  10000\n");
    EXPECT_EQ(render({.columns = "name,size", .sort = "size", .is_parsable = true}), "web:900\nal\\:pine:10000\n");
    EXPECT_EQ(render({.columns = "name,tags.role,published", .has_no_header = true, .filters = {"name=web"}}),
              "web  -  2024-05-02T01:02:03\n");
}

TEST_F(ListTest, IsFiltered) {
    auto const names = [this](std::string filter) {
        return render({.columns = "name", .has_no_header = true, .filters = {std::move(filter)}});
    };
    EXPECT_EQ(names("name=web"), "web\n");
    EXPECT_EQ(names("name=~ine"), "al:pine\n");
    EXPECT_EQ(names("public=true"), "al:pine\nweb\n");
    EXPECT_EQ(names("public=false"), "");
    EXPECT_EQ(names("pinned=false"), "al:pine\nweb\n");
    EXPECT_EQ(names("nmae=x"), "key \"nmae\" does not exist; did you mean \"name\"?");
    EXPECT_EQ(names("web"), "filter \"web\" is neither KEY=VALUE nor KEY=~PART");
    EXPECT_EQ(render({.columns = "uuid,nam"}), "column \"nam\" does not exist; did you mean \"name\"?");
    EXPECT_EQ(render({.sort = "zzzzzz"}), "key \"zzzzzz\" does not exist");
}

TEST_F(ListTest, IsJson) {
    std::string const text = render({.is_json = true, .filters = {"name=web"}});
    EXPECT_THAT(text, HasSubstr("[\n  {\n    \"manifest\": {\n      \"v\": 2,\n"));
    EXPECT_THAT(text, HasSubstr("\"size\": 900,\n"));
}

TEST(Progress, IsOneLine) {
    image::Progress const progress{.phase = image::Phase::downloading,
                                   .image = "docker.io/library/alpine:3.20",
                                   .done = 3 << 20,
                                   .total = 10 << 20};
    EXPECT_EQ(progress_line(progress, 1 << 20, 200),
              "downloading  3.0 MiB of 10.0 MiB, 1.0 MiB/s, 8 s left: docker.io/library/alpine:3.20");
    EXPECT_EQ(progress_line(progress, 1 << 20, 20), "downloading  3.0 MiB");
    EXPECT_EQ(progress_line({.phase = image::Phase::resolving, .image = "x\x1b"}, 0, 80), "resolving: x\\x1b");
    EXPECT_EQ(shown_bytes(1023), "1023 bytes");
    EXPECT_EQ(shown_bytes(1536), "1.5 KiB");
}

TEST(Progress, RateFollowsTheLastSeconds) {
    RateMeter meter;
    TimePoint const start{};
    EXPECT_EQ(meter.update(0, start), 0U);
    EXPECT_EQ(meter.update(1000, start + std::chrono::seconds(1)), 1000U);
    EXPECT_EQ(meter.update(1000, start + std::chrono::milliseconds(1100)), 1000U);
    EXPECT_EQ(meter.update(3000, start + std::chrono::seconds(2)), 1400U);
}

}  // namespace
}  // namespace triton::program
