#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace triton::netlink {

/// A request of rtnetlink while it is built: a header, a body, attributes. Source: netlink(7), rtnetlink(7).
class Message {
public:
    Message(std::uint16_t type, std::uint16_t flags);

    /// The fixed part behind the header: ifinfomsg, ifaddrmsg or rtmsg.
    template <class Body>
    Message& body(Body const& content) {
        append({reinterpret_cast<std::uint8_t const*>(&content), sizeof content});
        return *this;
    }

    Message& put(std::uint16_t type, std::span<std::uint8_t const> content);
    Message& put(std::uint16_t type, std::string_view text);
    Message& put(std::uint16_t type, std::uint32_t number);
    Message& put_byte(std::uint16_t type, std::uint8_t number);

    /// Attributes within an attribute. close() takes what open() has returned.
    std::size_t open(std::uint16_t type);
    void close(std::size_t opened);

    /// The finished text, with its length in the header.
    std::string const& finish(std::uint32_t sequence);

private:
    void append(std::span<std::uint8_t const> bytes);
    std::size_t start_attribute(std::uint16_t type);
    void end_attribute(std::size_t start);

    std::string bytes_;
};

/// The content of the first attribute of that type; nullopt: there is none, or the text is cut short.
std::optional<std::string_view> find_attribute(std::string_view attributes, std::uint16_t type);

/// A number at the beginning of a text; nullopt: it is too short.
std::optional<std::uint32_t> number_of(std::optional<std::string_view> content);
/// A text up to its NUL.
std::string text_of(std::optional<std::string_view> content);

}  // namespace triton::netlink
