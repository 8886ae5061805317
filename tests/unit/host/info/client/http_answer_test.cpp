#include "host/info/client/http_answer.h"

#include <gtest/gtest.h>

namespace triton::info {
namespace {

/// The body of an answer that comes in pieces of `step` bytes and then ends; else what is wrong with it.
std::string read(std::string_view text, std::size_t step, std::size_t limit = 100) {
    AnswerReader reader(limit);
    for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(std::min(step, rest.size())))
        if (auto const taken = reader.take(rest.substr(0, step)); !taken) return taken.error().text();
    if (auto const ended = reader.end(); !ended) return ended.error().text();
    EXPECT_TRUE(reader.is_complete());
    return std::to_string(reader.status()) + " " + reader.body();
}

struct Case {
    std::string_view answer;
    std::string_view result;
};

constexpr Case good[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 hello"},
    {"HTTP/1.1 200 OK\r\ncontent-LENGTH:5 \r\n\r\nhello", "200 hello"},
    {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200 "},
    {"HTTP/1.0 200 OK\r\nX: y\r\n\r\nuntil the end", "200 until the end"},
    {"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n", "404 no\n"},
    {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "204 "},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0A;name=value\r\n0123456789\r\n0\r\n\r\n",
     "200 abc0123456789"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\nTrailer: x\r\n\r\n", "200 \n"},
};

constexpr Case bad[] = {
    {"", "it ends too early"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "it ends too early"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "it ends too early"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!", "it goes on after its end"},
    {"HTTP/1.1 200 OK\n\n", "a line does not end with CR LF"},
    {"SSH-2.0-OpenSSH\r\n", R"(it is not HTTP: "SSH-2.0-OpenSSH")"},
    {"HTTP/2.0 200 OK\r\n", R"(it is not HTTP: "HTTP/2.0 200 OK")"},
    {"HTTP/1.1 100 Continue\r\n\r\n", R"(it is not HTTP: "HTTP/1.1 100 Continue")"},
    {"HTTP/1.1 2000 OK\r\n\r\n", R"(it is not HTTP: "HTTP/1.1 2000 OK")"},
    {"HTTP/1.1 +20 OK\r\n\r\n", R"(it is not HTTP: "HTTP/1.1 +20 OK")"},
    {"HTTP/1.1 200 OK\r\nno field\r\n\r\n", R"(its head has a line that is not a field: "no field")"},
    {"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", R"(its head has a line that is not a field: " folded: x")"},
    {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", R"(its length is "-1")"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "its head has two lengths"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551621\r\n\r\n", R"(its length is "18446744073709551621")"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", "it is longer than 100 bytes"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", R"(its transfer encoding is "gzip")"},
    {"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n", R"(its encoding is "br")"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "its head has a length and chunks"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", R"(the size of a chunk is "xyz")"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", R"(the size of a chunk is "-1")"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
     R"(the size of a chunk is "ffffffffffffffff")"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "a chunk is longer than it says"},
};

TEST(AnswerReader, ReadsWhatComesInPiecesOfAnySize) {
    for (Case const& row : good)
        for (std::size_t const step : {1, 2, 3, 7, 1000})
            EXPECT_EQ(read(row.answer, step), row.result) << step;
}

TEST(AnswerReader, SaysWhatIsWrong) {
    for (Case const& row : bad)
        for (std::size_t const step : {1, 5, 1000})
            EXPECT_EQ(read(row.answer, step), "cannot read the answer of vminfod: " + std::string(row.result)) << step;
}

TEST(AnswerReader, NothingGrowsWithoutALimit) {
    std::string const too_long(9000, 'x');
    EXPECT_EQ(read("HTTP/1.1 200 OK\r\nX: " + too_long, 512),
              "cannot read the answer of vminfod: a line of its head is too long");
    std::string fields;
    for (int i = 0; i < 400; ++i)
        fields += "X: 0123456789012345678901234567890123456789\r\n";
    EXPECT_EQ(read("HTTP/1.1 200 OK\r\n" + fields, 512), "cannot read the answer of vminfod: its head is too long");
    EXPECT_EQ(read("HTTP/1.1 200 OK\r\n\r\n" + std::string(101, 'x'), 10),
              "cannot read the answer of vminfod: it is longer than 100 bytes");
    std::string chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 11; ++i)
        chunks += "A\r\n0123456789\r\n";
    EXPECT_EQ(read(chunks, 10), "cannot read the answer of vminfod: it is longer than 100 bytes");
    EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + fields, 512),
              "cannot read the answer of vminfod: its head is too long");
}

TEST(AnswerReader, AnEndlessAnswerIsReadByWhoTakesItOut) {
    AnswerReader reader(100);
    ASSERT_TRUE(reader.take("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(reader.take("A\r\n0123456789\r\n")) << i;
        EXPECT_EQ(std::exchange(reader.body(), {}), "0123456789");
    }
    EXPECT_FALSE(reader.is_complete());
}

TEST(Target, EncodesAllButWhatIsPlain) {
    EXPECT_EQ(Target("/vms").text(), "/vms");
    EXPECT_EQ(Target("/vms").add("nics.*.ip", "~^10\\.0&x=1").add("fresh").text(),
              "/vms?nics.%2A.ip=~%5E10%5C.0%26x%3D1&fresh");
    EXPECT_EQ(Target("/vms").add("alias", "w\xc3\xa4 b\r\n").text(), "/vms?alias=w%C3%A4%20b%0D%0A");
}

}  // namespace
}  // namespace triton::info
