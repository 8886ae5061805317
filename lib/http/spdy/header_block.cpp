#include "lib/http/spdy/header_block.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>

#include <zlib.h>

#include "lib/http/spdy/dictionary.h"
#include "lib/http/spdy/frame.h"

namespace triton::http::spdy {

namespace {

// The window holds the dictionary; the blocks that we write are a few bytes.
constexpr int written_window_bits = 11;
constexpr int least_memory = 1;

std::unexpected<Error> bad_block(char const* why) { return fail(ErrorKind::corrupt, "read a header block", why); }

Bytef* bytes_of(std::string_view text) {
    return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib does not write there
}

bool is_good_name(std::string_view name) {
    constexpr std::array<std::string_view, 5> forbidden{"connection", "host", "keep-alive", "proxy-connection",
                                                        "transfer-encoding"};
    bool const is_lower = std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f && (c < 'A' || c > 'Z'); });
    return !name.empty() && is_lower && std::ranges::find(forbidden, name) == forbidden.end();
}

/// Takes a length and that many bytes from the front. Returns false when they are not there.
bool take_text(std::string_view& rest, std::string_view& text) {
    if (rest.size() < 4) return false;
    std::size_t const size = number_at(rest, 0);
    rest.remove_prefix(4);
    if (rest.size() < size) return false;
    text = rest.substr(0, size);
    rest.remove_prefix(size);
    return true;
}

Result<Headers> parse_headers(std::string_view rest) {
    if (rest.size() < 4) return bad_block("it is too short");
    std::uint32_t const count = number_at(rest, 0);
    rest.remove_prefix(4);
    if (count > most_headers) return bad_block("it has too many headers");
    Headers headers;
    for (std::uint32_t i = 0; i < count; ++i) {
        std::string_view name;
        std::string_view value;
        if (!take_text(rest, name) || !take_text(rest, value)) return bad_block("it is too short");
        if (!is_good_name(name)) return bad_block("a name is not allowed");
        if (!headers.emplace(name, value).second) return bad_block("a name is there twice");
    }
    if (!rest.empty()) return bad_block("something follows the headers");
    return headers;
}

}  // namespace

struct HeaderReader::Stream {
    Stream() {
        if (::inflateInit(&zlib) != Z_OK) throw std::bad_alloc();
    }
    ~Stream() { ::inflateEnd(&zlib); }
    Stream(Stream const&) = delete;
    Stream& operator=(Stream const&) = delete;
    z_stream zlib{};
};

HeaderReader::HeaderReader() : stream_(std::make_unique<Stream>()) {}
HeaderReader::~HeaderReader() = default;

Result<Headers> HeaderReader::read(std::string_view block) {
    std::array<char, most_header_bytes> text{};
    z_stream& zlib = stream_->zlib;
    zlib.next_in = bytes_of(block);
    zlib.avail_in = static_cast<uInt>(block.size());
    zlib.next_out = reinterpret_cast<Bytef*>(text.data());
    zlib.avail_out = static_cast<uInt>(text.size());
    int result = ::inflate(&zlib, Z_SYNC_FLUSH);
    if (result == Z_NEED_DICT) {
        std::string const& dictionary = header_dictionary();
        if (::inflateSetDictionary(&zlib, bytes_of(dictionary), static_cast<uInt>(dictionary.size())) != Z_OK)
            return bad_block("it needs another dictionary");
        result = ::inflate(&zlib, Z_SYNC_FLUSH);
    }
    if (result != Z_OK && result != Z_BUF_ERROR) return bad_block("it is not what zlib has packed");
    if (zlib.avail_out == 0 || zlib.avail_in != 0) return bad_block("it unpacks to too much");
    return parse_headers({text.data(), text.size() - zlib.avail_out});
}

struct HeaderWriter::Stream {
    Stream() {
        std::string const& dictionary = header_dictionary();
        if (::deflateInit2(&zlib, Z_BEST_SPEED, Z_DEFLATED, written_window_bits, least_memory, Z_DEFAULT_STRATEGY) !=
            Z_OK)
            throw std::bad_alloc();
        (void)::deflateSetDictionary(&zlib, bytes_of(dictionary), static_cast<uInt>(dictionary.size()));
    }
    ~Stream() { ::deflateEnd(&zlib); }
    Stream(Stream const&) = delete;
    Stream& operator=(Stream const&) = delete;
    z_stream zlib{};
};

HeaderWriter::HeaderWriter() : stream_(std::make_unique<Stream>()) {}
HeaderWriter::~HeaderWriter() = default;

std::string HeaderWriter::write(Headers const& headers) {
    std::string text;
    append_number(text, static_cast<std::uint32_t>(headers.size()));
    for (auto const& [name, value] : headers) {
        for (std::string const* part : {&name, &value}) {
            append_number(text, static_cast<std::uint32_t>(part->size()));
            text += *part;
        }
    }
    z_stream& zlib = stream_->zlib;
    zlib.next_in = bytes_of(text);
    zlib.avail_in = static_cast<uInt>(text.size());
    std::string block;
    do {
        std::array<char, 256> piece{};
        zlib.next_out = reinterpret_cast<Bytef*>(piece.data());
        zlib.avail_out = static_cast<uInt>(piece.size());
        (void)::deflate(&zlib, Z_SYNC_FLUSH);
        block.append(piece.data(), piece.size() - zlib.avail_out);
    } while (zlib.avail_out == 0);
    return block;
}

}  // namespace triton::http::spdy
