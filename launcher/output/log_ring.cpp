#include "launcher/output/log_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/text/utf8.h"

namespace triton::launcher {

namespace {

/// Stands before each text in the ring and in the saved form of the ring.
struct Header {
    std::int64_t microseconds;
    std::uint32_t length;
    std::uint32_t process;
    std::uint32_t is_error;
    std::uint32_t is_partial;
};
constexpr std::string_view magic = "TLRING2\n";  // and the sequence of the first chunk

Header header_at(char const* at) {
    Header header;
    std::memcpy(&header, at, sizeof header);
    return header;
}

LogChunk chunk_at(char const* at, std::uint64_t sequence) {
    Header const header = header_at(at);
    LogChunk chunk{sequence, header.microseconds, header.process};
    chunk.stream = header.is_error != 0 ? OutputStream::err : OutputStream::out;
    chunk.is_partial = header.is_partial != 0;
    chunk.text = {at + sizeof header, header.length};
    return chunk;
}

void put(char* at, LogChunk const& chunk) {
    Header const header{chunk.microseconds, static_cast<std::uint32_t>(chunk.text.size()), chunk.process,
                        chunk.stream == OutputStream::err, chunk.is_partial};
    std::memcpy(at, &header, sizeof header);
    std::memcpy(at + sizeof header, chunk.text.data(), chunk.text.size());
}

}  // namespace

LogRing::LogRing(std::size_t capacity) : capacity_(capacity == 0 ? 0 : std::max<std::size_t>(capacity, 1024)) {}

std::size_t LogRing::size_at(std::size_t at) const { return sizeof(Header) + header_at(bytes_.get() + at).length; }

/// Makes `bytes` free at end_, in one piece: behind the newest chunk, or at the beginning, before the oldest.
void LogRing::make_room(std::size_t bytes) {
    while (is_wrapped_ ? begin_ - end_ < bytes : capacity_ - end_ < bytes) {
        if (!is_wrapped_) {
            wrap_ = std::exchange(end_, 0);
            is_wrapped_ = true;
            continue;
        }
        begin_ += size_at(begin_);
        ++first_sequence_;
        if (begin_ < wrap_) continue;
        begin_ = 0;
        is_wrapped_ = false;
    }
}

void LogRing::append_one(LogChunk const& chunk) {
    std::size_t const size = sizeof(Header) + chunk.text.size();
    make_room(size);
    put(bytes_.get() + end_, chunk);
    end_ += size;
    ++next_sequence_;
}

void LogRing::append(LogChunk chunk, std::function<void(LogChunk const&)> const& each) {
    if (capacity_ > 0 && !bytes_) bytes_ = std::make_unique_for_overwrite<char[]>(capacity_);
    // Small against the ring, so that little is lost when the oldest gives way.
    std::size_t const longest = std::max<std::size_t>(capacity_, 1024) / 8 - sizeof(Header);
    std::string_view text = chunk.text;
    bool const is_partial = chunk.is_partial;
    while (!text.empty()) {
        std::size_t size = text.size();
        if (size > longest) {
            std::size_t const end = text.substr(0, longest).rfind('\n');
            size = end == std::string_view::npos ? text::prefix(text, longest).size() : end + 1;
        }
        chunk.text = text.substr(0, size);
        chunk.is_partial = size < text.size() ? chunk.text.back() != '\n' : is_partial;
        chunk.sequence = next_sequence_;
        text.remove_prefix(size);
        if (bytes_) append_one(chunk);
        if (each) each(chunk);
    }
}

std::uint64_t LogRing::read(std::uint64_t sequence, std::function<bool(LogChunk const&)> const& each) const {
    std::size_t at = begin_;
    bool is_before_wrap = is_wrapped_;
    for (std::uint64_t number = first_sequence_; number < next_sequence_; ++number) {
        if (is_before_wrap && at >= wrap_) {
            at = 0;
            is_before_wrap = false;
        }
        if (number >= sequence && !each(chunk_at(bytes_.get() + at, number))) return number + 1;
        at += size_at(at);
    }
    return std::max(sequence, next_sequence_);
}

std::string LogRing::save() const {
    std::string saved{magic};
    saved.append(reinterpret_cast<char const*>(&first_sequence_), sizeof first_sequence_);
    read(0, [&saved](LogChunk const& chunk) {
        std::size_t const at = saved.size();
        saved.resize(at + sizeof(Header) + chunk.text.size());
        put(saved.data() + at, chunk);
        return true;
    });
    return saved;
}

void LogRing::load(std::string_view saved) {
    if (!saved.starts_with(magic) || saved.size() < magic.size() + sizeof first_sequence_) return;
    std::memcpy(&first_sequence_, saved.data() + magic.size(), sizeof first_sequence_);
    next_sequence_ = first_sequence_;
    saved.remove_prefix(magic.size() + sizeof first_sequence_);
    while (saved.size() >= sizeof(Header)) {
        if (header_at(saved.data()).length > saved.size() - sizeof(Header)) return;
        LogChunk const chunk = chunk_at(saved.data(), 0);
        append(chunk);
        saved.remove_prefix(sizeof(Header) + chunk.text.size());
    }
}

}  // namespace triton::launcher
