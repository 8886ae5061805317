#include "host/unpack/decompressor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <bzlib.h>
#include <isa-l/igzip_lib.h>
#include <lzma.h>
#include <unistd.h>
#include <zstd.h>

namespace triton::unpack {

namespace {

std::unexpected<Error> broken(std::string_view format, std::string_view why) {
    return fail(ErrorKind::corrupt, std::string(format) + " data are broken: " + std::string(why));
}
constexpr std::string_view cut_off = "they end too early";

class Plain final : public Decompressor {
public:
    explicit Plain(Input& input) : input_(input) {}
    Result<std::size_t> read(std::span<unsigned char> into) override {
        auto const bytes = TRY(input_.peek());
        std::size_t const size = std::min(bytes.size(), into.size());
        std::memcpy(into.data(), bytes.data(), size);
        input_.use(size);
        return size;
    }

private:
    Input& input_;
};

/// Uses ISA-L, which is twice as fast as zlib.
class Gzip final : public Decompressor {
public:
    explicit Gzip(Input& input) : input_(input) { begin_member(); }

    Result<std::size_t> read(std::span<unsigned char> into) override {
        state_->next_out = into.data();
        state_->avail_out = static_cast<std::uint32_t>(into.size());
        while (state_->avail_out > 0) {
            auto const bytes = TRY(input_.peek());
            if (is_between_members_ && bytes.empty()) break;
            if (is_between_members_ && bytes.front() == 0) {
                input_.use(zeros_at_the_beginning(bytes));
                continue;
            }
            if (is_between_members_) begin_member();
            std::uint32_t const room = state_->avail_out;
            state_->next_in = const_cast<unsigned char*>(bytes.data());
            state_->avail_in = static_cast<std::uint32_t>(bytes.size());
            int const status = ::isal_inflate(state_.get());
            std::size_t const used = bytes.size() - state_->avail_in;
            input_.use(used);
            if (status != ISAL_DECOMP_OK && status != ISAL_END_INPUT) return broken("gzip", reason(status));
            is_between_members_ = state_->block_state == ISAL_BLOCK_FINISH;
            // Without input, it can only return what it still holds.
            if (bytes.empty() && !is_between_members_ && state_->avail_out == room) return broken("gzip", cut_off);
        }
        return into.size() - state_->avail_out;
    }

private:
    /// Tapes and fixed blocks are filled up with zeros, which gzip(1) ignores.
    static std::size_t zeros_at_the_beginning(std::span<unsigned char const> bytes) {
        auto const end = std::ranges::find_if(bytes, [](unsigned char byte) { return byte != 0; });
        return static_cast<std::size_t>(end - bytes.begin());
    }
    /// Resets the state for the next member; the output goes on where it is.
    void begin_member() {
        unsigned char* const next_out = state_->next_out;
        std::uint32_t const avail_out = state_->avail_out;
        ::isal_inflate_init(state_.get());
        state_->crc_flag = ISAL_GZIP;
        state_->next_out = next_out;
        state_->avail_out = avail_out;
        is_between_members_ = false;
    }
    static std::string_view reason(int status) {
        switch (status) {
            case ISAL_INVALID_WRAPPER: return "a header is wrong";
            case ISAL_INCORRECT_CHECKSUM: return "a checksum is wrong";
            case ISAL_UNSUPPORTED_METHOD: return "a method is unknown";
            default: return "a block is wrong";
        }
    }

    Input& input_;
    std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();
    bool is_between_members_ = false;
};

class Zstd final : public Decompressor {
public:
    explicit Zstd(Input& input) : input_(input), context_(::ZSTD_createDCtx()) {
        if (!context_) throw std::bad_alloc();
        ::ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, largest_zstd_window_log);
    }

    Result<std::size_t> read(std::span<unsigned char> into) override {
        ZSTD_outBuffer out{.dst = into.data(), .size = into.size(), .pos = 0};
        while (out.pos < out.size) {
            auto const bytes = TRY(input_.peek());
            if (bytes.empty() && is_between_frames_) break;
            ZSTD_inBuffer in{.src = bytes.data(), .size = bytes.size(), .pos = 0};
            std::size_t const before = out.pos;
            std::size_t const status = ::ZSTD_decompressStream(context_.get(), &out, &in);
            if (::ZSTD_isError(status) != 0) return broken("zstd", ::ZSTD_getErrorName(status));
            input_.use(in.pos);
            is_between_frames_ = status == 0;
            if (bytes.empty() && out.pos == before) return broken("zstd", cut_off);
        }
        return out.pos;
    }

private:
    struct Free {
        void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
    };
    Input& input_;
    std::unique_ptr<ZSTD_DCtx, Free> context_;
    bool is_between_frames_ = true;
};

class Xz final : public Decompressor {
public:
    explicit Xz(Input& input) : input_(input) {
        if (::lzma_stream_decoder(&stream_, largest_xz_memory, LZMA_CONCATENATED) != LZMA_OK) throw std::bad_alloc();
    }
    ~Xz() override { ::lzma_end(&stream_); }
    Xz(Xz const&) = delete;
    Xz& operator=(Xz const&) = delete;

    Result<std::size_t> read(std::span<unsigned char> into) override {
        stream_.next_out = into.data();
        stream_.avail_out = into.size();
        while (stream_.avail_out > 0 && !is_ended_) {
            auto const bytes = TRY(input_.peek());
            stream_.next_in = bytes.data();
            stream_.avail_in = bytes.size();
            lzma_ret const status = ::lzma_code(&stream_, bytes.empty() ? LZMA_FINISH : LZMA_RUN);
            input_.use(bytes.size() - stream_.avail_in);
            is_ended_ = status == LZMA_STREAM_END;
            if (status != LZMA_OK && !is_ended_) return broken("xz", reason(status));
        }
        return into.size() - stream_.avail_out;
    }

private:
    static std::string_view reason(lzma_ret status) {
        switch (status) {
            case LZMA_MEMLIMIT_ERROR: return "they need more than 256 MiB of memory";
            case LZMA_FORMAT_ERROR: return "a header is wrong";
            case LZMA_OPTIONS_ERROR: return "a method is unknown";
            case LZMA_BUF_ERROR: return cut_off;
            default: return "a block is wrong";
        }
    }
    Input& input_;
    lzma_stream stream_ = LZMA_STREAM_INIT;
    bool is_ended_ = false;
};

class Bzip2 final : public Decompressor {
public:
    explicit Bzip2(Input& input) : input_(input) { begin_stream(); }
    ~Bzip2() override { ::BZ2_bzDecompressEnd(&stream_); }
    Bzip2(Bzip2 const&) = delete;
    Bzip2& operator=(Bzip2 const&) = delete;

    Result<std::size_t> read(std::span<unsigned char> into) override {
        stream_.next_out = reinterpret_cast<char*>(into.data());
        stream_.avail_out = static_cast<unsigned>(into.size());
        while (stream_.avail_out > 0) {
            auto const bytes = TRY(input_.peek());
            if (bytes.empty() && is_between_streams_) break;
            if (is_between_streams_) restart();
            unsigned const room = stream_.avail_out;
            stream_.next_in = const_cast<char*>(reinterpret_cast<char const*>(bytes.data()));
            stream_.avail_in = static_cast<unsigned>(bytes.size());
            int const status = ::BZ2_bzDecompress(&stream_);
            input_.use(bytes.size() - stream_.avail_in);
            is_between_streams_ = status == BZ_STREAM_END;
            if (status != BZ_OK && !is_between_streams_)
                return broken("bzip2", status == BZ_DATA_ERROR_MAGIC ? "a header is wrong" : "a block is wrong");
            if (bytes.empty() && !is_between_streams_ && stream_.avail_out == room) return broken("bzip2", cut_off);
        }
        return into.size() - stream_.avail_out;
    }

private:
    void begin_stream() {
        if (::BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
        is_between_streams_ = false;
    }
    void restart() {
        char* const next_out = stream_.next_out;
        unsigned const avail_out = stream_.avail_out;
        ::BZ2_bzDecompressEnd(&stream_);
        stream_ = {};
        begin_stream();
        stream_.next_out = next_out;
        stream_.avail_out = avail_out;
    }
    Input& input_;
    bz_stream stream_{};
    bool is_between_streams_ = false;
};

bool starts_with(std::span<unsigned char const> bytes, std::initializer_list<unsigned char> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

role::Compression compression_of(std::span<unsigned char const> bytes) {
    using enum role::Compression;
    if (starts_with(bytes, {0x1f, 0x8b})) return gzip;
    if (starts_with(bytes, {0x28, 0xb5, 0x2f, 0xfd})) return zstd;
    if (starts_with(bytes, {0xfd, '7', 'z', 'X', 'Z', 0})) return xz;
    if (starts_with(bytes, {'B', 'Z', 'h'})) return bzip2;
    // A skippable frame of zstd. Source: RFC 8878, section 3.1.2
    if (bytes.size() >= 4 && (bytes[0] & 0xf0) == 0x50 && starts_with(bytes.subspan(1), {0x2a, 0x4d, 0x18}))
        return zstd;
    return none;
}

}  // namespace

Result<> Input::fill() {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    ssize_t got = -1;
    while ((got = ::read(fd_, buffer_.get() + end_, buffer_bytes - end_)) < 0 && errno == EINTR) {
    }
    if (got < 0) return fail(errno, "read the archive");
    end_ += static_cast<std::size_t>(got);
    read_ += static_cast<std::uint64_t>(got);
    return {};
}

Result<std::span<unsigned char const>> Input::peek() {
    if (begin_ == end_) TRY(fill());
    return std::span<unsigned char const>(buffer_.get() + begin_, end_ - begin_);
}

Result<std::span<unsigned char const>> Input::peek(std::size_t least) {
    for (std::size_t before = SIZE_MAX; end_ - begin_ < least && end_ - begin_ != before;) {
        before = end_ - begin_;
        TRY(fill());
    }
    return std::span<unsigned char const>(buffer_.get() + begin_, end_ - begin_);
}

Result<std::unique_ptr<Decompressor>> make_decompressor(role::Compression compression, Input& input) {
    constexpr std::size_t longest_magic = 6;
    if (compression == role::Compression::automatic) compression = compression_of(TRY(input.peek(longest_magic)));
    switch (compression) {
        case role::Compression::automatic:  // impossible here
        case role::Compression::none: return std::make_unique<Plain>(input);
        case role::Compression::gzip: return std::make_unique<Gzip>(input);
        case role::Compression::zstd: return std::make_unique<Zstd>(input);
        case role::Compression::xz: return std::make_unique<Xz>(input);
        case role::Compression::bzip2: return std::make_unique<Bzip2>(input);
    }
    std::unreachable();
}

}  // namespace triton::unpack
