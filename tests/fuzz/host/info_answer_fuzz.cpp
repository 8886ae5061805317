// Whatever comes out of vminfod's socket: no crash, no growth beyond the limit, the same in pieces of any size, and
// lines for people that hold nothing which a terminal obeys.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "host/info/client/documents.h"
#include "host/info/client/http_answer.h"
#include "lib/text/printable.h"

namespace {

using namespace triton;
using namespace triton::info;

constexpr std::size_t limit = 4096;

void require(bool holds) {
    if (!holds) std::abort();
}

struct Outcome {
    std::string error = {};
    unsigned status = 0;
    std::string body = {};

    bool operator==(Outcome const&) const = default;
};

Outcome read(std::string_view bytes, std::size_t step) {
    AnswerReader reader(limit);
    for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
        auto const taken = reader.take(bytes.substr(0, step));
        require(reader.body().size() <= limit);
        if (!taken) return {.error = taken.error().text()};
    }
    if (auto const ended = reader.end(); !ended) return {.error = ended.error().text()};
    require(reader.is_complete() && reader.status() >= 200);
    return {.status = reader.status(), .body = reader.body()};
}

void show(std::string_view line) {
    auto const record = read_record(line);
    if (!record) return;
    for (bool const is_full : {false, true}) {
        std::string const lines = event_lines(*record, is_full);
        require(std::ranges::none_of(lines, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == 0x7f; }));
        for (std::size_t at = 0; (at = lines.find('\xc2', at)) != std::string::npos; ++at)
            require(static_cast<unsigned char>(lines[at + 1]) >= 0xa0);
    }
    (void)read_answer(text::printable_json(line));
}

/// The first byte is the size of the pieces.
int run(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view const bytes(reinterpret_cast<char const*>(data) + 1, size - 1);
    Outcome const whole = read(bytes, std::max<std::size_t>(1, bytes.size()));
    require(whole == read(bytes, 1U + data[0]));
    (void)read_machines(whole.body);
    std::string_view rest = whole.error.empty() ? std::string_view(whole.body) : bytes;
    while (!rest.empty()) {
        std::size_t const end = std::min(rest.find('\n'), rest.size());
        show(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return 0;
}

}  // namespace

extern "C" int info_answer_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return info_answer_fuzz(data, size);
}
#endif
