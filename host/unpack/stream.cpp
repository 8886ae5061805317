#include "host/unpack/stream.h"

#include <algorithm>
#include <new>
#include <utility>

#include <openssl/evp.h>

#include "lib/base/start_thread.h"

namespace triton::unpack {

Stream::Stream(int blob, std::uint64_t most_bytes) : input_(blob), most_bytes_(most_bytes) {}

Stream::~Stream() {
    {
        std::scoped_lock const lock(mutex_);
        is_abandoned_ = true;
        has_changed_.notify_all();
    }
    if (decompressing_.joinable()) decompressing_.join();
    if (hashing_.joinable()) hashing_.join();
}

Result<> Stream::start(role::Compression compression) {
    decompressing_ = TRY(start_thread([this, compression] { decompress(compression); }));
    hashing_ = TRY(start_thread([this] { hash(); }));
    return {};
}

void Stream::decompress(role::Compression compression) {
    Result<> outcome;
    try {
        outcome = decompress_all(compression);
    } catch (std::bad_alloc const&) {
        outcome = fail(ErrorKind::refused, "decompressing takes more memory than is allowed");
    }
    std::scoped_lock const lock(mutex_);
    ended_ = std::move(outcome);
    has_changed_.notify_all();
}

Result<> Stream::decompress_all(role::Compression compression) {
    auto const decompressor = TRY(make_decompressor(compression, input_));
    std::uint64_t bytes = 0;
    for (;;) {
        Buffer* buffer = nullptr;
        {
            std::unique_lock lock(mutex_);
            has_changed_.wait(lock,
                              [this] { return is_abandoned_ || produced_ - std::min(hashed_, consumed_) < ring; });
            if (is_abandoned_) return {};
            buffer = &buffers_[produced_ % ring];
        }
        buffer->size = TRY(decompressor->read({buffer->bytes.get(), buffer_bytes}));
        if (buffer->size == 0) return {};
        bytes += buffer->size;
        if (bytes > most_bytes_)
            return fail(ErrorKind::refused, "archive is larger than " + std::to_string(most_bytes_) + " bytes");
        std::scoped_lock const lock(mutex_);
        ++produced_;
        bytes_ = bytes;
        bytes_read_ = input_.bytes_read();
        has_changed_.notify_all();
    }
}

void Stream::hash() {
    using Context = std::unique_ptr<EVP_MD_CTX, decltype([](EVP_MD_CTX* one) { EVP_MD_CTX_free(one); })>;
    Context const context(EVP_MD_CTX_new());
    bool is_good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
    for (;;) {
        Buffer const* buffer = nullptr;
        {
            std::unique_lock lock(mutex_);
            has_changed_.wait(lock, [this] { return is_abandoned_ || hashed_ < produced_ || ended_; });
            if (is_abandoned_ || hashed_ == produced_) break;
            buffer = &buffers_[hashed_ % ring];
        }
        is_good = is_good && EVP_DigestUpdate(context.get(), buffer->bytes.get(), buffer->size) == 1;
        std::scoped_lock const lock(mutex_);
        ++hashed_;
        has_changed_.notify_all();
    }
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    is_good = is_good && EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
    static constexpr std::string_view digits = "0123456789abcdef";
    std::scoped_lock const lock(mutex_);
    for (unsigned char const byte : std::span(digest).first(is_good ? size : 0)) {
        digest_ += digits[byte >> 4];
        digest_ += digits[byte & 15];
    }
}

Result<std::span<unsigned char const>> Stream::next() {
    std::unique_lock lock(mutex_);
    if (std::exchange(is_holding_, false)) {
        ++consumed_;
        has_changed_.notify_all();
    }
    has_changed_.wait(lock, [this] { return consumed_ < produced_ || ended_; });
    if (consumed_ == produced_) {
        if (!*ended_) return std::unexpected(ended_->error());
        return std::span<unsigned char const>();
    }
    is_holding_ = true;
    Buffer const& buffer = buffers_[consumed_ % ring];
    return std::span<unsigned char const>(buffer.bytes.get(), buffer.size);
}

Result<Stream::End> Stream::finish(Pace& pace) {
    while (!TRY(next()).empty())
        TRY(pace.step());
    hashing_.join();
    return End{bytes_, TRY(role::Digest::of_hex(digest_))};
}

std::uint64_t Stream::bytes_read() const {
    std::scoped_lock const lock(mutex_);
    return bytes_read_;
}

std::uint64_t Stream::bytes() const {
    std::scoped_lock const lock(mutex_);
    return bytes_;
}

}  // namespace triton::unpack
