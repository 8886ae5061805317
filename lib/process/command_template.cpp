#include "lib/process/command_template.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstring>

namespace triton::process {

namespace {

constexpr auto last_number = static_cast<std::uint32_t>(highest_process_number);

/// Writes as printf(3) does for %0*d, where there is room. Returns the end.
char* write_number(char* out, std::int64_t value, std::size_t width) {
    std::array<char, 24> digits;
    char const* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    auto const length = static_cast<std::size_t>(end - digits.data());
    char const* first = digits.data();
    if (*first == '-') *out++ = *first++;
    if (length < width) out = std::fill_n(out, width - length, '0');
    return std::copy(first, end, out);
}

}  // namespace

std::size_t decimal_length(std::int64_t value) {
    std::array<char, 24> digits;
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return static_cast<std::size_t>(end - digits.data());
}

void CommandTemplate::render(ProcessNumber number, std::span<char> buffer, std::span<char*> argv) const noexcept {
    assert(number >= ProcessNumber{1} && number <= highest_process_number);
    assert(buffer.size() >= buffer_size_ && argv.size() > argument_count_);
    // Whatever the number is, buffer_size() bytes are enough.
    std::uint32_t const known = std::clamp(static_cast<std::uint32_t>(number), 1U, last_number);
    char* out = buffer.data();
    std::size_t copied = 0;
    auto const copy_until = [&](std::size_t end) {
        out = std::copy(text_.data() + copied, text_.data() + end, out);
        copied = end;
    };
    for (Number const& part : numbers_) {
        copy_until(part.position);
        Wide const value = exact_value(known, part.multiplier, part.offset);
        out = write_number(out, nearest_integer(value), part.width);
    }
    copy_until(text_.size());

    char* argument = buffer.data();
    for (std::size_t i = 0; i < argument_count_; ++i) {
        argv[i] = argument;
        argument += std::strlen(argument) + 1;
    }
    argv[argument_count_] = nullptr;
}

std::vector<std::string> CommandTemplate::arguments(ProcessNumber number) const {
    std::string buffer(buffer_size_, '\0');
    std::vector<char*> argv(argument_count_ + 1);
    render(number, buffer, argv);
    return {argv.begin(), argv.end() - 1};
}

std::string CommandTemplate::take_first() {
    assert(argument_count_ > 0);
    std::string first = text_.substr(0, text_.find('\0'));
    std::size_t const bytes = first.size() + 1;
    assert(numbers_.empty() || numbers_.front().position >= bytes);
    text_.erase(0, bytes);
    for (Number& number : numbers_)
        number.position -= static_cast<std::uint32_t>(bytes);
    --argument_count_;
    buffer_size_ -= bytes;
    return first;
}

CommandTemplate::Builder::Builder(std::uint32_t highest_number) {
    command_.highest_number_ = std::max<std::uint32_t>(highest_number, 1);
}

void CommandTemplate::Builder::add_number(std::int64_t multiplier, std::int64_t offset, std::uint32_t width,
                                          std::size_t longest) {
    // A number beyond the count may be rendered too, while its process is being stopped.
    Wide const last = exact_value(last_number, multiplier, offset);
    spare_ += std::max(longest, decimal_length(nearest_integer(last))) - longest;
    command_.numbers_.push_back({static_cast<std::uint32_t>(command_.text_.size()), width, multiplier, offset});
}

void CommandTemplate::Builder::finish_argument(std::size_t size) {
    command_.text_ += '\0';
    ++command_.argument_count_;
    command_.buffer_size_ += size;
    argument_start_ = command_.text_.size();
}

CommandTemplate CommandTemplate::Builder::take() && {
    command_.buffer_size_ += spare_;
    command_.text_.shrink_to_fit();
    command_.numbers_.shrink_to_fit();
    return std::move(command_);
}

}  // namespace triton::process
