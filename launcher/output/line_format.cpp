#include "launcher/output/line_format.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/json/text.h"
#include "lib/text/utf8.h"

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

/// Whether a character is one of U+0080 to U+009F, with which some terminals begin an escape sequence. Other unsafe
/// characters of text::is_unsafe() stay: this is the program's own output, and emoji are composed with some of them.
bool is_c1(text::Character character) { return character.code >= 0x80 && character.code < 0xa0; }

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
        text::Character const character = text::decode(rest.substr(plain));
        if (is_c1(character))
            append_special(out, rest[plain + 1]);
        else
            out += character.length == 0 ? "\xef\xbf\xbd" : rest.substr(plain, character.length);
        taken += std::max<std::size_t>(character.length, 1);
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
        text::Character const decoded = text::decode(text.substr(taken));
        std::size_t const length = std::max<std::size_t>(decoded.length, 1);
        std::string_view const character = text.substr(taken, length);
        bool const is_control = (c < 0x20 && c != '\t') || c == 0x7f || is_c1(decoded);
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
