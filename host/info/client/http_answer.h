#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::info {

/// Reads one HTTP/1 answer from bytes as they arrive. It is strict and bounded: the server may send anything, for ever.
/// Source: RFC 9112.
///
///     head -> sized | until_end | chunk_size -> chunk -> chunk_end -> chunk_size ... -> trailer -> complete
class AnswerReader {
public:
    /// `limit`: for the bytes in body(). A caller that removes them as they arrive may read for ever.
    explicit AnswerReader(std::size_t limit) : limit_(limit) {}

    /// Takes the next bytes. Errors: corrupt, with what is wrong; after an error nothing else may be called.
    Result<> take(std::string_view bytes);
    /// To be called when the sender has closed the connection. Errors: corrupt when the answer is not complete.
    Result<> end();

    [[nodiscard]] bool has_head() const { return state_ != State::head; }
    [[nodiscard]] bool is_complete() const { return state_ == State::complete; }
    /// 0: the head is not complete.
    [[nodiscard]] unsigned status() const { return status_; }
    /// The content that was received and not removed yet.
    std::string& body() { return body_; }

private:
    enum class State : std::uint8_t { head, sized, until_end, chunk_size, chunk, chunk_end, trailer, complete };

    Result<> take_line(std::string_view line);
    Result<> take_status_line(std::string_view line);
    Result<> take_field(std::string_view line);
    Result<> take_chunk_size(std::string_view line);
    Result<> end_head();
    Result<> take_content(std::string_view& bytes);
    [[nodiscard]] bool reads_lines() const;

    std::size_t limit_;
    State state_ = State::head;
    std::string line_;             ///< the beginning of a line
    std::size_t field_bytes_ = 0;  ///< of the head, later of the trailer
    unsigned status_ = 0;
    std::optional<std::uint64_t> length_;
    bool is_chunked_ = false;
    std::uint64_t left_ = 0;  ///< of the content, or of the chunk
    std::string body_;
};

/// Makes `path` and these parameters the target of a request: "/vms?alias=web%200".
class Target {
public:
    explicit Target(std::string_view path) : text_(path) {}
    Target& add(std::string_view key, std::string_view value);
    /// Adds a key without a value.
    Target& add(std::string_view key);
    [[nodiscard]] std::string const& text() const { return text_; }

private:
    void append(std::string_view text);
    std::string text_;
    bool has_parameters_ = false;
};

}  // namespace triton::info
