// What the check of a new version has compiled, and the new version does not compile again.

#include "launcher/upgrade/compiled_filters.h"

#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher/plan/blocks.h"
#include "launcher/plan/configuration_source.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

namespace {

using process::SeccompFilter;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char const* nothing_set[] = {nullptr};
constexpr char const* three_programs = R"({"programs":{
    "a":{"command":["/bin/true"],"seccomp":{"profile":"none","deny":["mount"],"action":"kill"}},
    "b":{"command":["/bin/true"],"seccomp":{"profile":"none","deny":["mount"],"action":"kill"}},
    "c":{"command":["/bin/true"],"seccomp":{"allow":["@clock","mount"],"deny":["ptrace"],"action":"log"}}}})";

Accepted load_filtered() {
    auto loaded = load_configuration(read_source(one_layer(std::string(three_programs)), {}), {}, nothing_set,
                                     BinaryCheck::required, LoadKind::again, nullptr);
    EXPECT_TRUE(loaded) << loaded.error().errors.front();
    return std::move(*loaded);
}

/// How many filters a load has to compile.
std::uint64_t compiled_by_a_load() {
    std::uint64_t const before = SeccompFilter::compilations();
    (void)load_filtered();
    return SeccompFilter::compilations() - before;
}

std::string compiled_text(std::string_view compiler = "this one") {
    return write_compiled_filters(load_filtered().programs, compiler);
}

/// A memory file with this text, as the check leaves it.
UniqueFd left(std::string const& text) {
    UniqueFd file{::memfd_create("filters", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    ::setenv(filters_variable, std::to_string(file.get()).c_str(), 1);
    leave_compiled_filters(text);
    ::unsetenv(filters_variable);
    return file;
}

std::string content(UniqueFd const& file) {
    std::string text(1 << 20, '\0');
    ssize_t const size = ::pread(file.get(), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return text;
}

TEST(CompiledFilters, AreNotCompiledAgain) {
    std::string const text = compiled_text();
    ASSERT_EQ(compiled_by_a_load(), 2) << "nobody has them any more, and equal filters are one";
    auto const filters = read_compiled_filters(text, "this one");
    EXPECT_THAT(filters, SizeIs(2));
    EXPECT_EQ(compiled_by_a_load(), 0);
}

TEST(CompiledFilters, AreWhatTheyWere) {
    Accepted const before = load_filtered();
    std::string const text = write_compiled_filters(before.programs, "this one");
    std::vector<SeccompFilter> filters = read_compiled_filters(text, "this one");
    ASSERT_THAT(filters, SizeIs(2));
    EXPECT_EQ(filters.front().settings(), before.programs.front()->start->attributes().seccomp->settings());
    EXPECT_EQ(filters.back().settings(), before.programs.back()->start->attributes().seccomp->settings());
    Findings const read{.filters = {filters.front().code(), filters.back().code()}, .commands = {}};
    Findings const compiled{.filters = {before.programs.front()->start->attributes().seccomp->code(),
                                        before.programs.back()->start->attributes().seccomp->code()},
                            .commands = {}};
    EXPECT_EQ(read, compiled);
}

TEST(CompiledFilters, OfAnotherCompilerAreNotUsed) {
    EXPECT_THAT(read_compiled_filters(compiled_text("another one"), "this one"), IsEmpty());
    EXPECT_EQ(compiled_by_a_load(), 2);
}

TEST(CompiledFilters, ThatAreNotWholeAreNotUsed) {
    std::string const text = compiled_text();
    for (std::size_t size = 0; size < text.size(); ++size)
        ASSERT_THAT(read_compiled_filters(std::string_view(text).substr(0, size), "this one"), IsEmpty()) << size;
    EXPECT_THAT(read_compiled_filters(text + "x", "this one"), IsEmpty());
    EXPECT_EQ(compiled_by_a_load(), 2);
}

TEST(CompiledFilters, AreNoMoreThanADocumentMayHave) {
    for (std::uint64_t const count : {64, 65}) {
        BlockWriter out;
        out.add("this one");
        out.add(count);
        for (std::uint64_t i = 0; i < count; ++i) {
            out.add(std::uint64_t{0});
            out.add(std::uint64_t{0});
            out.add(std::vector<std::string>{"call" + std::to_string(i)});
            out.add(std::vector<std::string>{});
            out.add(SeccompFilter::Code(1));
        }
        EXPECT_THAT(read_compiled_filters(out.take(), "this one"), SizeIs(count == 64 ? 64 : 0));
    }
}

TEST(CompiledFilters, OfThisFileAreOfThisCompiler) {
    auto const compiler = own_compiler();
    ASSERT_TRUE(compiler);
    EXPECT_EQ(own_compiler(), compiler);
    EXPECT_THAT(*compiler, testing::StartsWith(SeccompFilter::compiler() + " "));
}

TEST(CompiledFilters, AreTakenFromASealedFile) {
    for (bool const is_sealed : {true, false}) {
        UpgradeState state;
        UniqueFd file = left(compiled_text(*own_compiler()));
        if (is_sealed) {
            EXPECT_TRUE(seal(file.get()));
        }
        int const number = file.release();
        state.filters = number;
        EXPECT_THAT(take_compiled_filters(state), SizeIs(is_sealed ? 2 : 0));
        EXPECT_FALSE(state.filters);
        EXPECT_EQ(::fcntl(number, F_GETFD), -1) << "it is closed";
    }
}

/// An older version has named no file, and an older check has left nothing.
TEST(CompiledFilters, AreNoneWhereNobodyHasLeftAny) {
    UpgradeState state;
    EXPECT_THAT(take_compiled_filters(state), IsEmpty());
    leave_compiled_filters("nobody has asked for it");
    for (char const* const value : {"", "x", "1x", "-1"}) {
        ::setenv(filters_variable, value, 1);
        leave_compiled_filters("nor here");
    }
    ::unsetenv(filters_variable);
}

TEST(CompiledFilters, ThatAreTooLongAreNotLeft) {
    EXPECT_EQ(content(left("some")), "some");
    EXPECT_EQ(content(left(std::string(longest_compiled_filters + 1, 'x'))), "");
}

}  // namespace

}  // namespace triton::launcher
