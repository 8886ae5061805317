#include "host/storage/stream_reader.h"

#include <cerrno>

#include <unistd.h>

namespace triton::storage::tree_stream {

namespace {

constexpr std::size_t prefix_size = 5;  // letter and length of a record

std::uint64_t number_of(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return value;
}

}  // namespace

std::unexpected<Error> Reader::corrupt(std::string reason) {
    return fail(ErrorKind::corrupt, "receive the tree", std::move(reason));
}

Result<> Reader::fill(std::size_t size) {
    buffer_.resize(size);
    for (std::size_t got = 0; got < size;) {
        ssize_t const piece = ::read(from_, buffer_.data() + got, size - got);
        if (piece < 0 && errno == EINTR) continue;
        if (piece < 0) return fail(errno, "read the stream");
        if (piece == 0) return corrupt("the stream ends before its end");
        got += static_cast<std::size_t>(piece);
    }
    return {};
}

Result<> Reader::start() {
    TRY(fill(magic.size()));
    hash_.add(buffer_);
    if (buffer_ != magic) return corrupt("it is not a stream of a tree, or one of a later version");
    return {};
}

Result<Record> Reader::next() {
    TRY(fill(prefix_size));
    std::string const prefix = buffer_;
    std::size_t const size = number_of(std::string_view(prefix).substr(1));
    if (size > longest_record) return corrupt("a record is too long");
    TRY(fill(size));
    rest_ = buffer_;
    auto const record = static_cast<Record>(prefix[0]);
    if (record == Record::end) {
        digest_ = std::move(hash_).take_hex();
        hash_ = files::Sha256();
        return record;
    }
    hash_.add(prefix);
    hash_.add(buffer_);
    return record;
}

Result<std::uint64_t> Reader::number() {
    if (rest_.size() < 8) return corrupt("a number is missing in a record");
    std::uint64_t const value = number_of(rest_.substr(0, 8));
    rest_.remove_prefix(8);
    return value;
}

Result<std::string_view> Reader::text(std::size_t longest) {
    if (rest_.size() < 4) return corrupt("a text is missing in a record");
    std::size_t const size = number_of(rest_.substr(0, 4));
    rest_.remove_prefix(4);
    if (size > longest || size > rest_.size()) return corrupt("a text is too long");
    std::string_view const value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
}

Result<std::string> Reader::name() {
    std::string_view const value = TRY(text(longest_name));
    bool const is_name = !value.empty() && value != "." && value != ".." && value.find('/') == value.npos &&
                         value.find('\0') == value.npos;
    if (!is_name) return corrupt("a name is not one that a file can have");
    return std::string(value);
}

Result<struct stat> Reader::attributes() {
    struct stat status{};
    std::uint64_t const mode = TRY(number());
    std::uint64_t const user = TRY(number());
    std::uint64_t const group = TRY(number());
    status.st_mtim.tv_sec = static_cast<time_t>(TRY(number()));
    std::uint64_t const nanoseconds = TRY(number());
    if (mode > 07777 || user >= 0xffffffff || group >= 0xffffffff || nanoseconds >= 1'000'000'000)
        return corrupt("attributes are out of range");
    status.st_mode = static_cast<mode_t>(mode);
    status.st_uid = static_cast<uid_t>(user);
    status.st_gid = static_cast<gid_t>(group);
    status.st_mtim.tv_nsec = static_cast<long>(nanoseconds);
    status.st_atim = status.st_mtim;
    return status;
}

Result<> Reader::done() const {
    if (!rest_.empty()) return corrupt("a record has more than it should");
    return {};
}

Result<> Reader::check_digest() {
    std::string_view const said = TRY(text(64));
    TRY(done());
    if (said != digest_) return corrupt("the digest at its end is not that of what came before");
    return {};
}

}  // namespace triton::storage::tree_stream
