#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/process/ids.h"

namespace triton::process {

/// A process number's value in an argument, without the limits of 64 bits.
__extension__ typedef __int128 Wide;
constexpr Wide exact_value(std::uint32_t number, std::int64_t multiplier, std::int64_t offset) {
    return Wide{number} * multiplier + offset;
}
constexpr bool fits(Wide value) { return value >= INT64_MIN && value <= INT64_MAX; }
constexpr std::int64_t nearest_integer(Wide value) {
    return value < INT64_MIN ? INT64_MIN : value > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(value);
}
/// Bytes of an integer's decimal text.
std::size_t decimal_length(std::int64_t value);

/// A list of arguments in which everything is settled but the process number, so that it can be made for any process
/// without allocating, without the environment and without failing.
///
/// It is one text, the arguments with their NULs, and the places in it where a number goes.
class CommandTemplate {
public:
    /// number * multiplier + offset, at `position` of the text, with zeros before its digits up to `width` characters.
    struct Number {
        std::uint32_t position = 0;
        std::uint32_t width = 0;
        std::int64_t multiplier = 1;
        std::int64_t offset = 0;

        bool operator==(Number const&) const = default;
    };

    /// Adds to a template from its beginning to its end.
    class Builder;

    [[nodiscard]] std::size_t argument_count() const { return argument_count_; }
    /// Enough bytes for one rendering, for every number that a process may have.
    [[nodiscard]] std::size_t buffer_size() const { return buffer_size_; }
    [[nodiscard]] std::uint32_t highest_number() const { return highest_number_; }

    /// Writes the arguments of one process into `buffer` (at least buffer_size() bytes) and pointers to them, ended by
    /// a null pointer, into `argv` (at least argument_count() + 1 places; the program's name is the caller's). Does not
    /// allocate. A number above highest_number() is that of a process that is to be stopped, after the count was
    /// lowered; nothing was checked for it: a value beyond 64 bits then becomes the nearest integer.
    void render(ProcessNumber number, std::span<char> buffer, std::span<char*> argv) const noexcept;

    /// The same as strings, for showing.
    [[nodiscard]] std::vector<std::string> arguments(ProcessNumber number) const;

    /// Removes the first argument, which there must be and no number may be in, and returns it.
    std::string take_first();

    /// Whether they render the same; for how many processes they were checked does not count.
    bool operator==(CommandTemplate const& other) const { return text_ == other.text_ && numbers_ == other.numbers_; }

private:
    CommandTemplate() = default;

    std::string text_;  // every argument with its NUL
    std::vector<Number> numbers_;
    std::size_t argument_count_ = 0;
    std::size_t buffer_size_ = 0;
    std::uint32_t highest_number_ = 0;
};

/// The caller checks sizes before it adds; nothing here is refused.
class CommandTemplate::Builder {
public:
    /// For the processes from 1 to `highest_number` (0 is taken for 1).
    explicit Builder(std::uint32_t highest_number);

    [[nodiscard]] std::uint32_t highest_number() const { return command_.highest_number_; }
    [[nodiscard]] std::size_t argument_count() const { return command_.argument_count_; }
    /// Bytes of all finished arguments, each for the process for which it is longest.
    [[nodiscard]] std::size_t size() const { return command_.buffer_size_; }

    void add_text(std::string_view text) { command_.text_ += text; }
    /// `longest`: bytes of the value's text for those processes, at least `width`.
    void add_number(std::int64_t multiplier, std::int64_t offset, std::uint32_t width, std::size_t longest);
    /// Drops what the argument has so far.
    void restart_argument() { command_.text_.resize(argument_start_); }
    /// Ends the argument. `size`: its bytes with the NUL, for the process for which it is longest.
    void finish_argument(std::size_t size);

    CommandTemplate take() &&;

private:
    CommandTemplate command_;
    std::size_t argument_start_ = 0;
    std::size_t spare_ = 0;  // what numbers above the highest one need besides
};

}  // namespace triton::process
