#include "host/storage/envelope.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <unistd.h>

#include "lib/base/write_all.h"
#include "lib/json/lookup.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

namespace triton::storage {

namespace {

constexpr std::string_view version = "1\n";
constexpr std::size_t most_head = 16 << 20;
constexpr std::size_t most_piece = 256 << 10;
constexpr std::size_t most_behind = 1 << 20;
constexpr std::size_t digest_characters = 64;

std::string count_bytes(std::size_t count) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8)
        bytes += static_cast<char>(count >> shift & 0xff);
    return bytes;
}

}  // namespace

std::string_view stream_kind(Backend backend) {
    switch (backend) {
        case Backend::zfs: return "zfs";
        case Backend::btrfs:
        case Backend::reflink:
        case Backend::directory: return "tree";
    }
    std::unreachable();
}

// --- writing ---

Result<> EnvelopeWriter::write(std::string_view bytes) {
    digest_.add(bytes);
    if (!write_all(to_, bytes)) return fail(errno, std::string(kind_.sending));
    return {};
}

Result<> EnvelopeWriter::head(EnvelopeHead const& head) {
    json::Writer out;
    out.open('{').member("storage", head.storage).key(kind_.member).raw(head.payload).close('}');
    std::string const text = std::move(out).text();
    if (text.size() > most_head)
        return fail(ErrorKind::invalid, std::string(kind_.sending), "its properties have more than 16 MiB");
    TRY(write(kind_.magic));
    TRY(write(version));
    TRY(write(count_bytes(text.size())));
    return write(text);
}

Result<> EnvelopeWriter::content(int from) {
    std::vector<char> buffer(most_piece);
    for (;;) {
        ssize_t const got = ::read(from, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, std::string(kind_.sending));
        TRY(write(count_bytes(static_cast<std::size_t>(got))));
        if (got == 0) break;
        TRY(write(std::string_view(buffer.data(), static_cast<std::size_t>(got))));
    }
    std::string const digest = std::move(digest_).take_hex() + "\n";
    if (!write_all(to_, digest)) return fail(errno, std::string(kind_.sending));
    return {};
}

// --- reading ---

std::unexpected<Error> EnvelopeReader::corrupt(std::string reason) const {
    return fail(ErrorKind::corrupt, std::string(kind_.receiving), std::move(reason));
}

Result<> EnvelopeReader::read(char* into, std::size_t count) {
    std::size_t done = 0;
    while (done < count) {
        ssize_t const got = ::read(from_, into + done, count - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, std::string(kind_.receiving));
        if (got == 0) return corrupt("the stream ends early");
        done += static_cast<std::size_t>(got);
    }
    return {};
}

Result<std::uint32_t> EnvelopeReader::read_count() {
    std::array<char, 4> bytes{};
    TRY(read(bytes.data(), bytes.size()));
    digest_.add(bytes);
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        count |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
    return count;
}

Result<EnvelopeHead> EnvelopeReader::head() {
    std::string start(kind_.magic.size() + version.size(), '\0');
    auto const read_start = read(start.data(), start.size());
    if (!read_start && read_start.error().kind != ErrorKind::corrupt) return std::unexpected(read_start.error());
    if (!read_start || !start.starts_with(kind_.magic))
        return corrupt("this is not a stream of " + std::string(kind_.maker));
    if (!start.ends_with(version))
        return fail(ErrorKind::unsupported, std::string(kind_.receiving),
                    "the stream has a version that is not known here");
    digest_.add(start);
    std::uint32_t const size = TRY(read_count());
    if (size > most_head) return corrupt("its properties have more than 16 MiB");
    std::string text(size, '\0');
    TRY(read(text.data(), text.size()));
    digest_.add(text);

    json::ProblemList problems(1);
    auto const node = json::read_json(text, json::Limits{.document_bytes = most_head}, problems);
    auto const* const name = node ? json::value_of<std::string>(*node, "storage") : nullptr;
    json::Node const* const machine = node ? json::member(*node, kind_.member) : nullptr;
    if (!name || !machine) return corrupt("its head is malformed");
    json::Writer payload;
    payload.value(*machine);
    return EnvelopeHead{*name, std::move(payload).text()};
}

Result<> EnvelopeReader::content(int to) {
    std::vector<char> buffer(most_piece);
    bool is_read = true;  // the reader stops where the tree ends, or when it fails
    std::size_t left = most_behind;
    for (;;) {
        std::uint32_t const size = TRY(read_count());
        if (size == 0) break;
        if (size > buffer.size()) return corrupt("a piece has more than 256 KiB");
        if (!is_read && size > left) return corrupt("there is more after the end of its tree");
        TRY(read(buffer.data(), size));
        std::string_view const piece(buffer.data(), size);
        digest_.add(piece);
        if (is_read && !write_all(to, piece)) {
            if (errno != EPIPE) return fail(errno, std::string(kind_.receiving));
            is_read = false;
        }
        if (!is_read) left -= std::min<std::size_t>(left, size);
    }
    std::string digest(digest_characters + 1, '\0');
    TRY(read(digest.data(), digest.size()));
    if (digest != std::move(digest_).take_hex() + "\n") return corrupt("its digest is not that of its content");
    return {};
}

}  // namespace triton::storage
