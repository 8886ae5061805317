#include "sidecar/agent/probe_answer.h"

#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace triton::agent {
namespace {

/// The status, "more" or the error; in pieces of this size, as it may come over the network.
std::string read_in_pieces(std::string_view text, std::size_t piece) {
    ProbeAnswer answer;
    std::string waiting;
    while (!text.empty() && !answer.status()) {
        waiting += text.substr(0, piece);
        text.remove_prefix(std::min(piece, text.size()));
        auto const taken = answer.take(waiting);
        if (!taken) return taken.error().text();
        waiting.erase(0, *taken);
    }
    return answer.status() ? std::to_string(*answer.status()) : "more";
}

TEST(ProbeAnswer, IsReadHoweverItComes) {
    struct Row {
        std::string_view text;
        std::string_view result;
    };
    constexpr std::string_view version = "the answer is not HTTP: bad version";
    constexpr std::string_view status = "the answer is not HTTP: bad status";
    constexpr std::string_view field = "the answer is not HTTP: bad field";
    Row const rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200"},
        {"HTTP/1.0 404 Not Found\r\n\r\nbody\r\nwithout fields", "404"},
        {"HTTP/1.1 200\r\n\r\n", "200"},
        {"HTTP/1.1 200 \r\n\r\n", "200"},
        {"HTTP/1.1 503\nA: b\n\n", "503"},
        {"HTTP/1.1 200 OK\r\nA: b\r\n continued\r\n\tagain\r\nB:\r\n\r\n", "200"},
        {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100\r\n\r\nHTTP/1.1 302 Found\r\n\r\n", "302"},
        {"HTTP/1.1 999 x\r\n\r\n", "999"},
        {"", "more"},
        {"HTTP/1.1 200", "more"},
        {"HTTP/1.1 200 OK\r\n", "more"},
        {"HTTP/1.1 200 OK\r\nA: b", "more"},
        {"HTTP/1.1 100 Continue\r\n\r\n", "more"},
        {"220 mail.example.org\r\n", version},
        {"\r\n", version},
        {"HTTP/1.\r\n", version},
        {"HTTP/1.x 200 OK\r\n", version},
        {"HTTP/2.0 200 OK\r\n", version},
        {"HTTP/1.1\r\n", status},
        {"HTTP/1.1 \r\n", status},
        {"HTTP/1.1 20\r\n", status},
        {"HTTP/1.1 20 OK\r\n", status},
        {"HTTP/1.1 2000\r\n", status},
        {"HTTP/1.1  200\r\n", status},
        {"HTTP/1.1 -20\r\n", status},
        {"HTTP/1.1 +20\r\n", status},
        {"HTTP/1.1 099 x\r\n", status},
        {"HTTP/1.11 200 OK\r\n", status},
        {"HTTP/1.1 200 OK\r\nno field\r\n\r\n", field},
        {"HTTP/1.1 200 OK\r\n: b\r\n\r\n", field},
    };
    for (Row const& row : rows) {
        for (std::size_t const piece : {std::size_t{1}, std::size_t{3}, std::size_t{4096}})
            EXPECT_EQ(read_in_pieces(row.text, piece), row.result) << row.text << " by " << piece;
    }
}

TEST(ProbeAnswer, TakesNothingOfTheBody) {
    ProbeAnswer answer;
    EXPECT_EQ(*answer.take("HTTP/1.1 200\n\nbody\n"), 14U);
    EXPECT_EQ(*answer.take("body\n"), 0U);
}

}  // namespace
}  // namespace triton::agent
