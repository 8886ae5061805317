#include "programs/triton-launch/libc_text.h"

#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace triton::program {
namespace {

/// The same by libc: how many bytes it read, and the number.
void expect_whole_as_libc(std::string const& text, int base) {
    WholeNumber const ours = read_whole(text.c_str(), base);
    char* end = nullptr;
    errno = 0;
    unsigned long long const libc = std::strtoull(text.c_str(), &end, base);
    EXPECT_EQ(ours.end - text.c_str(), end - text.c_str()) << text << ", base " << base;
    EXPECT_EQ(ours.is_too_large, errno == ERANGE) << text << ", base " << base;
    std::uint64_t const value = ours.is_negative ? -ours.magnitude : ours.magnitude;
    EXPECT_EQ(ours.is_too_large ? ULLONG_MAX : value, libc) << text;
}

TEST(LibcText, ReadsWholeNumbersAsLibcDoes) {
    for (std::string const text : {"",
                                   "0",
                                   "7",
                                   "-1",
                                   "+12",
                                   " \t\n42x",
                                   "x",
                                   "-",
                                   "0x",
                                   "0xg",
                                   "0x1F",
                                   "-0XaBc",
                                   "010",
                                   "08",
                                   "12.5",
                                   "z",
                                   "18446744073709551615",
                                   "18446744073709551616",
                                   "-18446744073709551615",
                                   "99999999999999999999999999"}) {
        for (int const base : {0, 8, 10, 16, 36})
            expect_whole_as_libc(text, base);
    }
}

/// Up to `places` doubles beside libc's number.
void expect_real_as_libc(std::string const& text, int places) {
    RealNumber const ours = read_real(text.c_str());
    char* end = nullptr;
    double const libc = std::strtod(text.c_str(), &end);
    EXPECT_EQ(ours.end - text.c_str(), end - text.c_str()) << text;
    double least = libc;
    double most = libc;
    for (int i = 0; i < places; ++i) {
        least = std::nextafter(least, -INFINITY);
        most = std::nextafter(most, INFINITY);
    }
    EXPECT_GE(ours.value, least) << text;
    EXPECT_LE(ours.value, most) << text;
    EXPECT_EQ(std::signbit(ours.value), std::signbit(libc)) << text;
}

TEST(LibcText, ReadsDecimalNumbersAsLibcDoes) {
    for (char const* const text : {"0",
                                   "-0",
                                   "1",
                                   "-1.5",
                                   ".5",
                                   "5.",
                                   ".",
                                   "",
                                   "x",
                                   "-",
                                   "+3.25",
                                   " 7",
                                   "0.1",
                                   "0.01",
                                   "33.3",
                                   "1e3",
                                   "1E+3",
                                   "1e-3",
                                   "1e",
                                   "1e+",
                                   "1ex",
                                   "1.2.3",
                                   "123456789012345",
                                   "0.000001",
                                   "9007199254740992",
                                   "1e22",
                                   "1e-22",
                                   "1e999",
                                   "-1e999",
                                   "1e-999",
                                   "0e999999999999",
                                   "0.5e-99999999999999"})
        expect_real_as_libc(text, 0);
}

TEST(LibcText, IsAtMostOnePlaceBesideLibcForLongNumbers) {
    for (char const* const text : {"1.7976931348623157e308", "2.2250738585072014e-308", "1e-310",
                                   "123456789012345678901234567890", "0.1234567890123456789012345", "1e23", "8.5e-300"})
        expect_real_as_libc(text, 1);
    std::mt19937_64 numbers(1);
    for (int i = 0; i < 20'000; ++i) {
        std::string const exponent = std::to_string(static_cast<int>(numbers() % 600) - 300);
        expect_real_as_libc(std::to_string(numbers()) + "." + std::to_string(numbers()) + "e" + exponent, 1);
    }
}

TEST(LibcText, ReadsAMillionDigits) {
    expect_real_as_libc(std::string(1'000'000, '7'), 0);
    expect_real_as_libc("0." + std::string(1'000'000, '0') + "7", 0);
}

std::string formatted(std::size_t size, char const* pattern, ...) {
    std::array<char, 64> out;
    out.fill('~');
    std::va_list values;
    va_start(values, pattern);
    int const length = format(out.data(), size, pattern, values);
    va_end(values);
    std::size_t const end = std::string(out.data(), out.size()).find('\0');
    return std::to_string(length) + ":" + (end == std::string::npos ? "" : std::string(out.data(), end));
}

TEST(LibcText, FormatsWhatLibrariesPrint) {
    EXPECT_EQ(formatted(64, "<U+%.4X>", 7), "8:<U+0007>");
    EXPECT_EQ(formatted(64, "%s, %.2s, %c, 100%%", "text", "text", 'x'), "17:text, te, x, 100%");
    EXPECT_EQ(formatted(64, "%d %d %d %u", -5, 0, -2147483647 - 1, 4294967295U), "27:-5 0 -2147483648 4294967295");
    EXPECT_EQ(formatted(64, "%x %X %.3d", 255, 255, 7), "9:ff FF 007");
}

TEST(LibcText, CountsWhatDoesNotFit) {
    EXPECT_EQ(formatted(4, "%s", "longer"), "6:lon");
    EXPECT_EQ(formatted(1, "%d", 12), "2:");
    EXPECT_EQ(formatted(0, "%d", 12), "2:");
}

TEST(LibcText, LeavesOtherConversionsAsTheyAre) { EXPECT_EQ(formatted(64, "a %.3f b", 1.5), "8:a %.3f b"); }

}  // namespace
}  // namespace triton::program
