#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace triton::launcher {

enum class OutputStream : std::uint8_t { out, err };

/// "stdout" or "stderr".
std::string_view stream_name(OutputStream stream);

/// The longest line that is kept whole; longer ones are split into pieces of at most this many bytes.
constexpr std::size_t longest_line = 64 * 1024;

/// The most space that one piece needs: its text and what surrounds it.
constexpr std::size_t longest_piece = longest_line + 512;

/// The longest message for a syslog daemon, all of it. Source: RFC 5424, 6.1: receivers should take 2,048 bytes; those
/// in use take 8 KiB.
constexpr std::size_t longest_syslog = 8192;

class LineCursor;

/// Renders captured lines. Pure: the time comes as a parameter.
class LineFormat {
public:
    /// "text".
    static LineFormat raw();
    /// "web[2] | text"; the second and later pieces of a long line have "+" for "|". The unnamed program is "process".
    static LineFormat prefix(std::string_view program, std::uint32_t number);
    /// {"time":"..","program":"web","process":2,"stream":"stdout","message":".."}: UTF-8 as it is, each byte that is
    /// not part of it as U+FFFD, control characters escaped. All pieces of a long line but its last have "partial":true
    /// at the end. The unnamed program has no "program".
    static LineFormat json(std::string_view program, std::uint32_t number);

    /// RFC 5424, of at most longest_syslog bytes: "<30>1 TIME HOST web 2 - - text". A control character but the tab
    /// becomes "#" and three octal digits, as rsyslog has it. The number of the process is its PROCID.
    struct SyslogHead {
        unsigned facility = 0;
        unsigned severity = 0;        ///< of stdout
        unsigned error_severity = 0;  ///< of stderr
        std::string_view host;        ///< as it is; "-": none
        std::string_view name;        ///< the same, at most 48 bytes
        /// RFC 3164 without a host, as syslog(3) writes it: "<30>Jan 31 23:59:59 web[2]: text", in UTC.
        bool is_old = false;
    };
    static LineFormat syslog(SyslogHead const& head, std::uint32_t number);

    /// From now on with the time and a space before each line and each further piece of one; json has it anyway.
    void set_timestamp(bool has_timestamp) { has_timestamp_ = has_timestamp; }

    struct Piece {
        OutputStream stream = OutputStream::out;
        std::string_view time = {};  ///< see TimeText
        bool is_continued = false;   ///< not the beginning of its line
        bool is_ended = true;        ///< the end of the text is the end of the line
    };
    /// Appends `text` (at most longest_line bytes, no newline in it) as one line of at most longest_piece bytes.
    /// Returns how much of it was taken: less than all where escapes make it too long for one message.
    std::size_t append(std::string& out, std::string_view text, Piece const& piece) const;

private:
    std::size_t write(LineCursor& out, std::string_view text, Piece const& piece) const;

    enum class Kind : std::uint8_t { raw, prefix, json, syslog };
    Kind kind_ = Kind::raw;
    bool has_timestamp_ = false;
    bool has_old_time_ = false;  // syslog: that of RFC 3164
    std::string head_;           // prefix: "web[2] | "; json: ,"program":"web","process":2,"stream":"; syslog: "<30>1 "
    std::string again_;          // prefix: "web[2] + "; syslog, of stderr: "<27>1 "
    std::string tail_;           // syslog, behind the time: " host web 2 - - "
};

}  // namespace triton::launcher
