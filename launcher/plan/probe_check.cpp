#include "launcher/plan/probe_check.h"

#include <algorithm>
#include <array>
#include <vector>

#include "config/probe_target.h"

namespace triton::launcher {

namespace {

constexpr std::size_t longest_field = 8192;

/// What is wrong with NAME=VALUE as a header field. RFC 9110, 5.5; what is not ASCII is left to the server.
std::optional<std::string> field_fault(std::string_view field) {
    std::size_t const equals = field.find('=');
    auto const name = std::string(field.substr(0, equals));
    std::string_view const value = field.substr(equals + 1);
    if (value.size() > longest_field) return "the value of " + name + " is longer than 8192 bytes";
    bool const has_control = std::ranges::any_of(value, [](char c) {
        auto const byte = static_cast<unsigned char>(c);
        return (byte < 0x20 && byte != '\t') || byte == 0x7f;
    });
    if (has_control) return "the value of " + name + " has a control character";
    return std::nullopt;
}

/// Calls `check` with the buffers of each number, as far as the budget goes. Beyond it only the first and last numbers
/// are checked.
template <class Check>
std::optional<std::string> for_each_number(process::CommandTemplate const& made, bool is_numbered, std::size_t words,
                                           std::uint64_t& budget, Check check) {
    std::vector<char> buffer(made.buffer_size());
    std::vector<char*> argv(words + 1);
    std::uint32_t const last = is_numbered ? made.highest_number() : 1;
    auto const affordable = std::max<std::uint64_t>(budget / std::max<std::size_t>(buffer.size(), 1), 2);
    std::uint64_t const left_out = last - std::min<std::uint64_t>(affordable, last);
    auto const first_left_out = static_cast<std::uint32_t>(affordable / 2 + 1);
    for (std::uint32_t number = 1; number <= last; ++number) {
        if (left_out > 0 && number == first_left_out) number += static_cast<std::uint32_t>(left_out);
        made.render(process::ProcessNumber{number}, buffer, argv);
        budget -= std::min<std::uint64_t>(budget, buffer.size());
        for (std::size_t word = 0; word < words; ++word) {
            auto fault = check(std::string_view(argv[word]));
            if (fault) return (is_numbered ? "process " + std::to_string(number) + ": " : "") + *fault;
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> target_fault(NetworkProbe const& probe, bool is_numbered, std::uint64_t& budget) {
    return for_each_number(probe.target, is_numbered, 1, budget, [&](std::string_view target) {
        auto const parsed = config::row_of(probe.kind).parse_target(target);
        return parsed ? std::nullopt : std::optional(parsed.error());
    });
}

std::optional<std::string> headers_fault(NetworkProbe const& probe, bool is_numbered, std::uint64_t& budget) {
    if (!probe.headers) return std::nullopt;
    std::size_t const fields = probe.headers->arguments(process::ProcessNumber{1}).size();
    return for_each_number(*probe.headers, is_numbered, fields, budget, &field_fault);
}

}  // namespace triton::launcher
