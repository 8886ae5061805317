#include "host/info/client/http_answer.h"

#include <algorithm>
#include <charconv>

#include "lib/base/http_field.h"
#include "lib/json/text.h"

namespace triton::info {

namespace {

constexpr std::size_t longest_line = 8 << 10;
constexpr std::size_t most_field_bytes = 16 << 10;
constexpr std::size_t most_digits = 15;  // of a size; anything longer is not one

std::unexpected<Error> wrong(std::string reason) {
    return fail(ErrorKind::corrupt, "read the answer of vminfod", std::move(reason));
}

/// Source: RFC 9110, section 5.6.2, "token".
bool is_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_character); }

std::optional<std::uint64_t> number_of(std::string_view text, int base) {
    std::uint64_t number = 0;
    if (text.empty() || text.size() > most_digits) return std::nullopt;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

}  // namespace

bool AnswerReader::reads_lines() const {
    switch (state_) {
        case State::head:
        case State::chunk_size:
        case State::chunk_end:
        case State::trailer: return true;
        case State::sized:
        case State::until_end:
        case State::chunk:
        case State::complete: return false;
    }
    std::unreachable();
}

Result<> AnswerReader::take(std::string_view bytes) {
    while (!bytes.empty()) {
        if (is_complete()) return wrong("it goes on after its end");
        if (!reads_lines()) {
            TRY(take_content(bytes));
            continue;
        }
        std::size_t const end = std::min(bytes.find('\n'), bytes.size());
        if (line_.size() + end > longest_line) return wrong("a line of its head is too long");
        line_ += bytes.substr(0, end);
        if (end == bytes.size()) return {};
        bytes.remove_prefix(end + 1);
        if (!line_.ends_with('\r')) return wrong("a line does not end with CR LF");
        line_.pop_back();
        std::string const line = std::exchange(line_, {});
        TRY(take_line(line));
    }
    return {};
}

Result<> AnswerReader::take_line(std::string_view line) {
    switch (state_) {
        case State::head:
            if (status_ == 0) return take_status_line(line);
            return line.empty() ? end_head() : take_field(line);
        case State::chunk_size: return take_chunk_size(line);
        case State::chunk_end:
            if (!line.empty()) return wrong("a chunk is longer than it says");
            state_ = State::chunk_size;
            return {};
        case State::trailer:
            if (!line.empty()) return take_field(line);
            state_ = State::complete;
            return {};
        case State::sized:
        case State::until_end:
        case State::chunk:
        case State::complete: break;
    }
    std::unreachable();
}

/// "HTTP/1.1 200 OK"
Result<> AnswerReader::take_status_line(std::string_view line) {
    bool const is_http = line.starts_with("HTTP/1.0 ") || line.starts_with("HTTP/1.1 ");
    std::string_view const rest = is_http ? line.substr(9) : "";
    auto const status = number_of(rest.substr(0, 3), 10);
    bool const has_blank = rest.size() == 3 || (rest.size() > 3 && rest[3] == ' ');
    // 1xx: none of our requests gets an answer before the answer
    if (!status || *status < 200 || *status > 599 || !has_blank) return wrong("it is not HTTP: " + json::quoted(line));
    status_ = static_cast<unsigned>(*status);
    return {};
}

Result<> AnswerReader::take_field(std::string_view line) {
    field_bytes_ += line.size() + 2;
    if (field_bytes_ > most_field_bytes) return wrong("its head is too long");
    std::size_t const colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
        return wrong("its head has a line that is not a field: " + json::quoted(line));
    if (state_ == State::trailer) return {};
    std::string_view const name = line.substr(0, colon);
    std::string_view const value = trimmed(line.substr(colon + 1));
    if (are_same_letters(name, "Content-Length")) {
        if (length_) return wrong("its head has two lengths");
        length_ = number_of(value, 10);
        if (!length_) return wrong("its length is " + json::quoted(value));
    } else if (are_same_letters(name, "Transfer-Encoding")) {
        if (is_chunked_ || !are_same_letters(value, "chunked"))
            return wrong("its transfer encoding is " + json::quoted(value));
        is_chunked_ = true;
    } else if (are_same_letters(name, "Content-Encoding")) {
        return wrong("its encoding is " + json::quoted(value));  // we have not asked for any
    }
    return {};
}

Result<> AnswerReader::end_head() {
    if (is_chunked_ && length_) return wrong("its head has a length and chunks");
    field_bytes_ = 0;
    // Source: RFC 9112, section 6.3: these have no content, whatever their heads say.
    bool const is_empty = status_ == 204 || status_ == 304;
    if (is_empty || length_ == 0U) {
        state_ = State::complete;
    } else if (is_chunked_) {
        state_ = State::chunk_size;
    } else if (length_) {
        if (*length_ > limit_) return wrong("it is longer than " + std::to_string(limit_) + " bytes");
        left_ = *length_;
        state_ = State::sized;
    } else {
        state_ = State::until_end;
    }
    return {};
}

Result<> AnswerReader::take_chunk_size(std::string_view line) {
    // we ignore extensions of chunks; source: RFC 9112, section 7.1.1
    auto const size = number_of(trimmed(line.substr(0, line.find(';'))), 16);
    if (!size) return wrong("the size of a chunk is " + json::quoted(line));
    left_ = *size;
    state_ = left_ == 0 ? State::trailer : State::chunk;
    return {};
}

Result<> AnswerReader::take_content(std::string_view& bytes) {
    std::size_t count = bytes.size();
    if (state_ != State::until_end) count = static_cast<std::size_t>(std::min<std::uint64_t>(count, left_));
    if (count > limit_ - std::min(limit_, body_.size()))
        return wrong("it is longer than " + std::to_string(limit_) + " bytes");
    body_ += bytes.substr(0, count);
    bytes.remove_prefix(count);
    if (state_ == State::until_end) return {};
    left_ -= count;
    if (left_ == 0) state_ = state_ == State::chunk ? State::chunk_end : State::complete;
    return {};
}

Result<> AnswerReader::end() {
    if (state_ == State::until_end) state_ = State::complete;
    if (!is_complete()) return wrong("it ends too early");
    return {};
}

// --- targets ---

void Target::append(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    for (char const c : text) {
        // Source: RFC 3986, section 2.3, "unreserved".
        bool const is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                              c == '.' || c == '_' || c == '~';
        auto const byte = static_cast<std::uint8_t>(c);
        if (is_plain)
            text_ += c;
        else
            text_ += {'%', digits[byte >> 4], digits[byte & 15]};
    }
}

Target& Target::add(std::string_view key) {
    text_ += has_parameters_ ? '&' : '?';
    has_parameters_ = true;
    append(key);
    return *this;
}

Target& Target::add(std::string_view key, std::string_view value) {
    add(key);
    text_ += '=';
    append(value);
    return *this;
}

}  // namespace triton::info
