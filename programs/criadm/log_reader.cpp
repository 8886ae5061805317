#include "programs/criadm/log_reader.h"

#include <algorithm>
#include <array>

#include <sys/stat.h>
#include <unistd.h>

namespace triton::program {

namespace {

constexpr std::size_t block_bytes = 64 * 1024;
constexpr std::size_t most_at_once = 1 << 20;
constexpr std::size_t head_bytes = 64;  // time, stream and tag have less

/// The next word, and the blank behind it.
std::optional<std::string_view> take_word(std::string_view& text) {
    std::size_t const blank = text.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    std::string_view const word = text.substr(0, blank);
    text.remove_prefix(blank + 1);
    return word;
}

/// Whether what begins there is a piece, so that the next line goes on with it.
bool is_piece_at(int log, off_t at) {
    std::array<char, head_bytes> head{};
    ssize_t const size = ::pread(log, head.data(), head.size(), at);
    auto const line = size > 0 ? parse_log_line({head.data(), static_cast<std::size_t>(size)}) : std::nullopt;
    return line && line->is_piece;
}

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view line) {
    auto const time = take_word(line);
    auto const stream = take_word(line);
    if (!time || !stream || (*stream != "stdout" && *stream != "stderr")) return std::nullopt;
    auto tag = take_word(line);
    if (!tag) {  // a line without text
        tag = line;
        line = {};
    }
    std::string_view const first = tag->substr(0, tag->find(':'));  // more tags may follow
    if (first != "F" && first != "P") return std::nullopt;
    return LogLine{.time = *time, .is_error = *stream == "stderr", .is_piece = first == "P", .text = line};
}

/// Backwards, in blocks. A line ends with one that is not a piece: the last of those that are too many ends where the
/// wanted ones begin.
off_t begin_of_last_lines(int log, std::int64_t count) {
    struct stat status{};
    if (count < 0 || ::fstat(log, &status) != 0) return 0;
    std::array<char, block_bytes> block{};
    std::int64_t seen = 0;
    off_t next = status.st_size;  // what was looked at begins there
    for (off_t end = status.st_size; end > 0;) {
        off_t const from = std::max<off_t>(end - static_cast<off_t>(block.size()), 0);
        ssize_t const size = ::pread(log, block.data(), static_cast<std::size_t>(end - from), from);
        if (size <= 0) return next;
        for (off_t at = from + size - 1; at >= from; --at) {
            bool const is_between = block[static_cast<std::size_t>(at - from)] == '\n' && at + 1 < status.st_size;
            if (!is_between) continue;
            if (!is_piece_at(log, at + 1) && ++seen > count) return next;
            next = at + 1;
        }
        end = from;
    }
    return !is_piece_at(log, 0) && ++seen > count ? next : 0;
}

Result<LogReader> LogReader::open(std::string path, std::int64_t tail) {
    LogFile file = TRY(LogFile::open(path));
    if (tail >= 0) ::lseek(file.fd(), begin_of_last_lines(file.fd(), tail), SEEK_SET);
    return LogReader(std::move(path), std::move(file));
}

Result<bool> LogReader::read(std::string& out) {
    std::array<char, block_bytes> block{};
    bool has_some = false;
    while (out.size() < most_at_once) {
        std::size_t const size = TRY(file_.read(block));
        if (size == 0 && next_.empty()) break;
        if (size == 0) {
            file_ = std::move(next_.front());
            next_.pop_front();
            rest_.clear();
            continue;
        }
        has_some = true;
        rest_.append(block.data(), size);
        std::size_t const whole = rest_.rfind('\n') + 1;  // 0: no newline
        out.append(rest_, 0, whole);
        rest_.erase(0, whole);
    }
    return has_some;
}

bool LogReader::follow_rotation() {
    if (!next_.empty()) return true;
    auto named = LogFile::open(path_);  // before the others: what is renamed after that is found again by this name
    if (!named || named->is_same(file_)) return false;
    for (LogFile& one : rotated_between(path_, file_, *named))
        next_.push_back(std::move(one));
    next_.push_back(*std::move(named));
    return true;
}

}  // namespace triton::program
