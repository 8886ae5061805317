// What a helper process says of a configuration, and what the launcher makes of it.

#include "launcher/plan/verdict.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char const* only_a_path[] = {"PATH=/bin", nullptr};
constexpr char const* sandboxed = R"({"programs":{
    "a":{"command":["true"],"seccomp":{"profile":"none","deny":["mount"]}},
    "b":{"command":["/bin/true"],"seccomp":{"profile":"none","deny":["mount"]}},
    "c":{"command":["/bin/true"],"seccomp":{"profile":"none","deny":["ptrace"]}}}})";

SourceTexts texts(std::string document) { return {one_layer(std::move(document)), std::string()}; }

TEST(Verdict, OfAGoodConfigurationHasWhatTakesLong) {
    Verdict const verdict = judge(texts(sandboxed), {}, only_a_path);
    ASSERT_FALSE(verdict.rejected) << verdict.rejected->errors.front();
    EXPECT_THAT(verdict.findings.commands, ElementsAre("/bin/true", "/bin/true", "/bin/true"));
    EXPECT_THAT(verdict.findings.filters, SizeIs(2)) << "equal filters are one";
    auto const read = read_verdict(write_verdict(verdict));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->findings, verdict.findings);
}

/// No filter is compiled and no file looked for by who follows.
TEST(Verdict, IsFollowedWithoutDoingItAgain) {
    Findings findings = judge(texts(sandboxed), {}, only_a_path).findings;
    findings.commands.front() = "/somewhere/else";
    std::uint64_t const before = process::SeccompFilter::compilations();
    auto const followed =
        load_configuration(texts(sandboxed), {}, only_a_path, BinaryCheck::required, LoadKind::follow, &findings);
    ASSERT_TRUE(followed) << followed.error().errors.front();
    EXPECT_EQ(process::SeccompFilter::compilations(), before);
    EXPECT_STREQ(followed->programs.front()->start->program(), "/somewhere/else");
    auto const whole = load_configuration(std::string(sandboxed), {}, only_a_path);
    ASSERT_TRUE(whole);
    EXPECT_EQ(followed->programs.back()->start->attributes(), whole->programs.back()->start->attributes());
}

TEST(Verdict, ThatDoesNotFitIsARejection) {
    Findings few = judge(texts(sandboxed), {}, only_a_path).findings;
    few.commands.clear();
    few.filters.clear();
    auto const followed =
        load_configuration(texts(sandboxed), {}, only_a_path, BinaryCheck::required, LoadKind::follow, &few);
    ASSERT_FALSE(followed);
    EXPECT_THAT(followed.error().errors, testing::Contains("programs.a.seccomp: this filter was not prepared"));
    EXPECT_THAT(followed.error().errors,
                testing::Contains("programs.a.command[0]: cannot find true: it was not looked up"));
}

TEST(Verdict, OfABadConfigurationHasEveryReason) {
    Verdict const verdict =
        judge(texts(R"({"programs":{"a":{"command":["/nonexistent"],"colour":1}}})"), {}, only_a_path);
    ASSERT_TRUE(verdict.rejected);
    auto const read = read_verdict(write_verdict(verdict));
    ASSERT_TRUE(read);
    EXPECT_THAT(read->rejected->errors,
                ElementsAre("programs.a.command[0]: cannot execute /nonexistent: No such file or directory"));
    EXPECT_THAT(read->rejected->warnings, ElementsAre("programs.a: unknown key \"colour\""));
    EXPECT_THAT(read->rejected->missing_binaries, ElementsAre("/nonexistent"));
    EXPECT_EQ(read->rejected->document, verdict.rejected->document);
    EXPECT_THAT(read->findings.commands, IsEmpty());
}

/// Programs share a file with bad lines, and there are several such files.
TEST(Verdict, HasAsManyWarningsAsAnybodyReads) {
    std::string const directory = testing::TempDir() + "triton-verdict-test-" + std::to_string(::getpid());
    std::filesystem::create_directory(directory);
    std::string files;
    for (std::string const name : {"/a", "/b"}) {
        std::ofstream file(directory + name);
        for (int i = 0; i < 60; ++i)
            file << "key: value\n";
        files.append(files.empty() ? "" : ",").append("\"").append(directory).append(name).append("\"");
    }
    auto const programs = [&](std::string const& command) {
        std::string document =
            R"({"programs":{"p":{"command":[")" + command + R"("],"environmentFile":[)" + files + "]}";
        for (int i = 0; i < 100; ++i)
            document += ",\"p" + std::to_string(i) + R"(":{"command":["/bin/true"],"environmentFile":[)" + files + "]}";
        return document + "}}";
    };
    Verdict const verdict = judge(texts(programs("/nonexistent")), {}, only_a_path);
    ASSERT_TRUE(verdict.rejected);
    EXPECT_THAT(verdict.rejected->errors,
                ElementsAre("programs.p.command[0]: cannot execute /nonexistent: No such file or directory"));
    std::vector<std::string> const& warnings = verdict.rejected->warnings;
    ASSERT_THAT(warnings, SizeIs(101));
    EXPECT_EQ(warnings[59], directory + "/a: line 60: is not of the form NAME=value");
    EXPECT_EQ(warnings[60], directory + "/b: line 1: is not of the form NAME=value");
    EXPECT_EQ(warnings[100], "and 20 more");
    auto const accepted = load_configuration(programs("/bin/true"), {}, only_a_path);
    ASSERT_TRUE(accepted) << accepted.error().errors.front();
    EXPECT_EQ(accepted->warnings, warnings);
    std::filesystem::remove_all(directory);
}

TEST(Verdict, SaysWhetherTheAgentMayBringWhatIsMissing) {
    for (bool const misses : {false, true}) {
        Verdict verdict;
        verdict.rejected.emplace();
        verdict.rejected->errors = {"it misses a variable"};
        verdict.rejected->misses_node_label = misses;
        auto const read = read_verdict(write_verdict(verdict));
        ASSERT_TRUE(read);
        EXPECT_EQ(read->rejected->misses_node_label, misses);
    }
}

TEST(Verdict, ThatTakesLongToFollowIsARejection) {
    Verdict const verdict = judge(texts(sandboxed), {}, only_a_path, Duration{-1});
    ASSERT_TRUE(verdict.rejected);
    EXPECT_THAT(verdict.rejected->errors, ElementsAre(testing::EndsWith(" to follow")));
    EXPECT_NE(verdict.rejected->document, 0);
}

/// A helper may die while it writes, or be somebody else's by then.
TEST(Verdict, IsNotReadFromAnythingElse) {
    std::string const good = write_verdict(judge(texts(sandboxed), {}, only_a_path));
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(read_verdict(std::string_view(good).substr(0, size))) << size;
    EXPECT_FALSE(read_verdict(good + "x"));
    std::string const endless(64, '\xff');
    EXPECT_FALSE(read_verdict(endless));
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string changed = good;
        changed[at] = static_cast<char>(changed[at] ^ 0x80);
        (void)read_verdict(changed);  // whatever it says, it is read within its bytes
    }
    EXPECT_EQ(read_verdict("").error().kind, ErrorKind::corrupt);
    Verdict const without_reason{.rejected = Rejected{}};
    EXPECT_FALSE(read_verdict(write_verdict(without_reason)));
}

// What the launcher does by itself.

TEST(SmallLoad, HasLimits) {
    auto const load = [](std::string const& document) {
        return load_configuration(texts(document), {}, only_a_path, BinaryCheck::required, LoadKind::small, nullptr);
    };
    auto const programs = [](std::size_t count, std::string_view more) {
        std::string document = R"({"programs":{)";
        for (std::size_t i = 0; i < count; ++i) {
            std::string const number = std::to_string(i);
            std::string keys{more};
            if (std::size_t const at = keys.find('#'); at != keys.npos) keys.replace(at, 1, std::to_string(1000 + i));
            document += (i == 0 ? "\"p" : ",\"p") + number + R"(":{"command":["/bin/true"])" + keys + "}";
        }
        return document + "}}";
    };
    EXPECT_TRUE(load(programs(8, R"(,"limits":{"nofile":#})")));
    auto const many = load(programs(12, R"(,"limits":{"nofile":#})"));
    ASSERT_FALSE(many);
    EXPECT_TRUE(many.error().is_too_much) << "each has a trial";
    EXPECT_TRUE(load(programs(100, R"(,"limits":{"nofile":1000})"))) << "equal ones have one trial";
    auto const probed = load(programs(1, R"(,"count":60000,"readiness":{"type":"tcp","address":)"
                                         R"({"type":"Concatenate","values":["h:",{"type":"ProcessNumber"}]}})"));
    ASSERT_FALSE(probed);
    EXPECT_TRUE(probed.error().is_too_much) << "each target is rendered";
    auto const searched =
        load(R"({"programs":{"p":{"command":["true"],"environment":{"PATH":")" + std::string(5000, ':') + R"("}}}})");
    ASSERT_FALSE(searched);
    EXPECT_TRUE(searched.error().is_too_much) << "each place of PATH is looked at";
    EXPECT_FALSE(may_be_loaded(LoadKind::small, texts(std::string(20000, ' ')), only_a_path));
    EXPECT_TRUE(may_be_loaded(LoadKind::small, texts(sandboxed), only_a_path));
    std::string const large = "A=" + std::string(70000, 'x');
    char const* const entries[] = {large.c_str(), nullptr};
    EXPECT_FALSE(may_be_loaded(LoadKind::small, texts(sandboxed), entries));
}

/// A program whose processes have a file of their own, which does not exist, and an entry of so many bytes.
std::string with_environments_of_each(std::size_t count, std::size_t bytes) {
    return R"({"programs":{"p":{"command":["/bin/true"],"environmentFrom":"clean","count":)" + std::to_string(count) +
           R"(,"environment":{"A":")" + std::string(bytes - 2, 'x') + R"("},"environmentFile":{"optional":true,)" +
           R"("path":{"type":"Concatenate","values":["/nonexistent/",{"type":"ProcessNumber"}]}}}}})";
}

/// Each process may have an environment of its own: 103 of 2,545 bytes and our own nine are the 256 KiB.
TEST(SmallLoad, CountsTheEnvironmentsOfEachProcess) {
    auto const is_too_much = [](std::size_t count, std::size_t bytes, char const* own) {
        char const* const entries[] = {own, nullptr};
        auto const loaded = load_configuration(texts(with_environments_of_each(count, bytes)), {}, entries,
                                               BinaryCheck::required, LoadKind::small, nullptr);
        return !loaded && loaded.error().is_too_much;
    };
    EXPECT_FALSE(is_too_much(103, 2545, "PATH=/bin"));
    EXPECT_TRUE(is_too_much(103, 2546, "PATH=/bin"));
    EXPECT_TRUE(is_too_much(104, 2545, "PATH=/bin"));
    EXPECT_TRUE(is_too_much(103, 2545, "PATH=/sbin")) << "so is ours";
}

/// None exists, so that nothing is copied.
TEST(SmallLoad, CountsTheFilesOfEachProcess) {
    auto const load = [](std::size_t count) {
        std::string files;
        for (int i = 0; i < 16; ++i)
            files += std::string(i == 0 ? "" : ",") + R"({"optional":true,"path":{"type":"Concatenate","values":)" +
                     R"(["/nonexistent/",{"type":"ProcessNumber"}]}})";
        return load_configuration(texts(R"({"programs":{"p":{"command":["/bin/true"],"environmentFrom":"clean",)"
                                        R"("count":)" +
                                        std::to_string(count) + R"(,"environmentFile":[)" + files + "]}}}"),
                                  {}, only_a_path, BinaryCheck::required, LoadKind::small, nullptr);
    };
    auto const few = load(124);
    ASSERT_TRUE(few);
    EXPECT_THAT(few->missing_binaries, SizeIs(124)) << "each path once";
    auto const many = load(126);
    ASSERT_FALSE(many);
    EXPECT_TRUE(many.error().is_too_much);
}

TEST(WholeLoad, LimitsTheEnvironmentsOfEachProcess) {
    auto const errors = [](std::size_t count, std::size_t bytes) {
        auto const loaded = load_configuration(with_environments_of_each(count, bytes), {}, only_a_path);
        return loaded ? std::vector<std::string>() : loaded.error().errors;
    };
    EXPECT_THAT(errors(2048, 8192), IsEmpty());
    EXPECT_THAT(errors(2048, 8193),
                ElementsAre("programs.p.environmentFile: the environments of processes with files by number are larger "
                            "than 16 MiB in all"));
    EXPECT_THAT(errors(2049, 100),
                ElementsAre("programs.p.environmentFile: more than 2048 processes with files by number in all"));
}

TEST(FirstLoad, HasMoreRoomAndLimitsAllTheSame) {
    auto const load = [](std::size_t count, std::string const& keys) {
        std::string document = R"({"programs":{)";
        for (std::size_t i = 0; i < count; ++i)
            document += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + R"(":{"command":["/bin/true"])" + keys + "}";
        SourceTexts const all = texts(document + "}}");
        EXPECT_TRUE(may_be_loaded(LoadKind::first, all, only_a_path));
        EXPECT_FALSE(may_be_loaded(LoadKind::small, all, only_a_path));
        return load_configuration(all, {}, only_a_path, BinaryCheck::required, LoadKind::first, nullptr);
    };
    EXPECT_TRUE(load(1000, ""));
    EXPECT_TRUE(load(1000, R"(,"limits":{"nofile":1000})")) << "equal ones have one trial";
    auto const searched = [&](std::size_t count, std::size_t places) {
        auto const loaded = load(count, R"(,"environment":{"PATH":")" + std::string(places - 1, ':') +
                                            R"("},"preStop":{"command":["no-such-command"]})");
        EXPECT_FALSE(loaded);
        return loaded ? Rejected() : loaded.error();
    };
    EXPECT_TRUE(searched(1, 20'001).is_too_much) << "each place of PATH is looked at";
    EXPECT_FALSE(searched(1000, 100).is_too_much) << "equal searches are one";
    EXPECT_THAT(searched(1000, 100).errors.front(), testing::HasSubstr("no-such-command"));
    EXPECT_FALSE(may_be_loaded(LoadKind::first, texts(std::string(300'000, ' ')), only_a_path));
}

TEST(SmallLoad, DoesNotTakeMoreFiltersThanAreGood) {
    std::string document = R"({"programs":{)";
    for (std::size_t i = 0; i < 65; ++i) {
        document += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) +
                    R"(":{"command":["/bin/true"],"seccomp":{"profile":"none","deny":["mount")";
        for (std::size_t more = 0; more < i; ++more)
            document += R"(,"mount")";
        document += "]}}";
    }
    auto const loaded = load_configuration(document + "}}", {}, only_a_path);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().errors,
                ElementsAre("programs.p64.seccomp: more than 64 different filters in one document"));
}

}  // namespace

}  // namespace triton::launcher
