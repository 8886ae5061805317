#include "launcher/output/line_format.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/json/text.h"

namespace triton::launcher {

/// Where a line is written: into room that is large enough for all of it. std::string's own append is not inlined, and
/// took a quarter of our time with captured JSON.
class LineCursor {
public:
    explicit LineCursor(char* begin) : begin_(begin), at_(begin) {}

    LineCursor& append(std::string_view text) {
        at_ = std::ranges::copy(text, at_).out;
        return *this;
    }
    LineCursor& operator+=(std::string_view text) { return append(text); }
    LineCursor& operator+=(char c) {
        *at_++ = c;
        return *this;
    }
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(at_ - begin_); }

private:
    char* begin_;
    char* at_;
};

namespace {

/// The length of the UTF-8 sequence at the start of `text` (not empty, its first byte not ASCII); 0 when it does not
/// start with one.
/// Source: RFC 3629, section 4: no overlong forms, no surrogates, nothing above U+10FFFF.
std::size_t sequence_length(std::string_view text) {
    auto const byte = [text](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0U; };
    auto const is_tail = [](unsigned b) { return (b & 0xc0U) == 0x80; };
    unsigned const first = byte(0);
    unsigned const second = byte(1);
    if (!is_tail(second) || first < 0xc2 || first > 0xf4) return 0;
    if (first < 0xe0) return 2;
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
    if (first < 0xf0) return is_tail(byte(2)) ? 3 : 0;
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
    return is_tail(byte(2)) && is_tail(byte(3)) ? 4 : 0;
}

/// Whether one of eight bytes needs escaping: a control character, a quote, a backslash, not ASCII.
bool has_special(std::uint64_t word) {
    constexpr std::uint64_t ones = 0x0101010101010101;
    constexpr std::uint64_t highs = 0x8080808080808080;
    auto const has_zero = [](std::uint64_t w) { return (w - ones) & ~w & highs; };
    std::uint64_t const below_space = (word - ones * 0x20) & ~word & highs;
    return ((word & highs) | below_space | has_zero(word ^ (ones * '"')) | has_zero(word ^ (ones * '\\')) |
            has_zero(word ^ (ones * 0x7f))) != 0;
}

/// How many bytes at the start of `text` are copied as they are.
std::size_t plain_run(std::string_view text) {
    std::size_t at = 0;
    for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
        std::memcpy(&word, text.data() + at, sizeof word);
        if (has_special(word)) break;
    }
    while (at < text.size()) {
        auto const c = static_cast<std::uint8_t>(text[at]);
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') break;
        ++at;
    }
    return at;
}

void append_special(LineCursor& out, char c) {
    static constexpr char digits[] = "0123456789abcdef";
    out += '\\';
    switch (c) {
        case '"':
        case '\\': out += c; return;
        case '\n': out += 'n'; return;
        case '\r': out += 'r'; return;
        case '\t': out += 't'; return;
        default: break;
    }
    out += "u00";
    out += digits[static_cast<std::uint8_t>(c) >> 4];
    out += digits[c & 15];
}

/// Appends `text` escaped until that has taken `limit` bytes; returns how much of it was taken.
std::size_t append_escaped(LineCursor& out, std::string_view text, std::size_t limit) {
    constexpr std::size_t longest_escape = 6;
    std::size_t const begin = out.size();
    std::size_t taken = 0;
    while (taken < text.size()) {
        std::string_view const rest = text.substr(taken);
        std::size_t const room = limit - (out.size() - begin);
        std::size_t const plain = std::min(plain_run(rest), room);
        out += rest.substr(0, plain);
        taken += plain;
        if (plain == rest.size() || room - plain < longest_escape) break;
        if (static_cast<std::uint8_t>(rest[plain]) < 0x80) {
            append_special(out, rest[plain]);
            ++taken;
            continue;
        }
        std::size_t const length = sequence_length(rest.substr(plain));
        std::string_view const character = length == 0 ? "\xef\xbf\xbd" : rest.substr(plain, length);
        if (json::is_c1(character)) {
            append_special(out, character[1]);
        } else {
            out += character;
        }
        taken += std::max<std::size_t>(length, 1);
    }
    return taken;
}

/// "2026-01-03T23:59:59.123456Z" as "Jan  3 23:59:59". Source: RFC 3164, 4.1.2.
void append_old_time(LineCursor& out, std::string_view time) {
    constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    auto const month = static_cast<std::size_t>(10 * (time[5] - '0') + time[6] - '0') - 1;
    out.append(months.substr(3 * month, 3)).append(" ");
    out += time[8] == '0' ? ' ' : time[8];
    out.append(time.substr(9, 1)).append(" ").append(time.substr(11, 8));
}

/// Appends `text` with control characters as octal digits until that has taken `limit` bytes; returns how much of it
/// was taken. What is not UTF-8 stays as it is.
std::size_t append_octal(LineCursor& out, std::string_view text, std::size_t limit) {
    std::size_t const end = out.size() + limit;
    std::size_t taken = 0;
    while (taken < text.size()) {
        auto const c = static_cast<std::uint8_t>(text[taken]);
        std::size_t const length = c < 0x80 ? 1 : std::max<std::size_t>(sequence_length(text.substr(taken)), 1);
        std::string_view const character = text.substr(taken, length);
        bool const is_control = (c < 0x20 && c != '\t') || c == 0x7f || json::is_c1(character);
        if (out.size() + (is_control ? 4 * length : length) > end) break;
        taken += length;
        if (!is_control) {
            out += character;
            continue;
        }
        for (char const one : character) {
            auto const byte = static_cast<std::uint8_t>(one);
            for (char const part : {'#', static_cast<char>('0' + (byte >> 6)), static_cast<char>('0' + (byte >> 3 & 7)),
                                    static_cast<char>('0' + (byte & 7))})
                out += part;
        }
    }
    return taken;
}

}  // namespace

std::string_view stream_name(OutputStream stream) { return stream == OutputStream::out ? "stdout" : "stderr"; }

std::size_t whole_characters(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return text.size();
    // Back to the beginning of the UTF-8 sequence that the cut would divide.
    for (std::size_t back = 1; back <= 3 && back < limit; ++back) {
        std::size_t const start = limit - back;
        auto const c = static_cast<std::uint8_t>(text[start]);
        if ((c & 0xc0U) == 0x80) continue;
        if (c < 0x80) return limit;
        return sequence_length(text.substr(start)) > back ? start : limit;
    }
    return limit;
}

LineFormat LineFormat::raw() { return {}; }

LineFormat LineFormat::prefix(std::string_view program, std::uint32_t number) {
    LineFormat format;
    format.kind_ = Kind::prefix;
    std::string name{program.empty() ? "process" : program};
    name.append("[").append(std::to_string(number)).append("] ");
    format.head_ = name + "| ";
    format.again_ = name + "+ ";
    return format;
}

LineFormat LineFormat::json(std::string_view program, std::uint32_t number) {
    LineFormat format;
    format.kind_ = Kind::json;
    if (!program.empty()) {
        format.head_ = R"(,"program":)";
        json::append_json_string(format.head_, program);
    }
    format.head_.append(R"(,"process":)").append(std::to_string(number)).append(R"(,"stream":")");
    return format;
}

LineFormat LineFormat::syslog(SyslogHead const& head, std::uint32_t number) {
    LineFormat format;
    format.kind_ = Kind::syslog;
    std::string_view const version = head.is_old ? ">" : ">1 ";
    format.head_ = "<" + std::to_string(8 * head.facility + head.severity).append(version);
    format.again_ = "<" + std::to_string(8 * head.facility + head.error_severity).append(version);
    format.has_old_time_ = head.is_old;
    if (head.is_old) {
        format.tail_.append(" ").append(head.name).append("[").append(std::to_string(number)).append("]: ");
        return format;
    }
    format.tail_.append(" ").append(head.host).append(" ").append(head.name);
    format.tail_.append(" ").append(std::to_string(number)).append(" - - ");
    return format;
}

/// Writes a line; returns how much of the text was taken.
std::size_t LineFormat::write(LineCursor& out, std::string_view text, Piece const& piece) const {
    if (has_timestamp_ && (kind_ == Kind::raw || kind_ == Kind::prefix)) out.append(piece.time) += ' ';
    switch (kind_) {
        case Kind::raw: out.append(text) += '\n'; return text.size();
        case Kind::prefix: out.append(piece.is_continued ? again_ : head_).append(text) += '\n'; return text.size();
        case Kind::syslog: {
            out.append(piece.stream == OutputStream::out ? head_ : again_);
            if (has_old_time_)
                append_old_time(out, piece.time);
            else
                out.append(piece.time);
            out.append(tail_);
            std::size_t const taken = append_octal(out, text, longest_syslog - out.size());
            out += '\n';
            return taken;
        }
        case Kind::json: break;
    }
    out.append(R"({"time":")").append(piece.time).append("\"").append(head_);
    out.append(stream_name(piece.stream)).append(R"(","message":")");
    std::size_t const taken = append_escaped(out, text, longest_line);
    bool const is_partial = taken < text.size() || !piece.is_ended;
    out += is_partial ? std::string_view("\",\"partial\":true}\n") : std::string_view("\"}\n");
    return taken;
}

std::size_t LineFormat::append(std::string& out, std::string_view text, Piece const& piece) const {
    constexpr std::size_t longest_escape = 6;
    constexpr std::size_t around = 128;  // time, stream and the keys of JSON
    std::size_t const escaped = std::max(text.size(), std::min(longest_escape * text.size(), longest_line));
    std::size_t const room = head_.size() + again_.size() + tail_.size() + around + escaped;
    std::size_t const begin = out.size();
    std::size_t taken = 0;
    out.resize_and_overwrite(begin + room, [&](char* data, std::size_t) {
        LineCursor line(data + begin);
        taken = write(line, text, piece);
        return begin + line.size();
    });
    return taken;
}

}  // namespace triton::launcher
