#include "lib/netlink/message.h"

#include <cstring>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

namespace triton::netlink {

Message::Message(std::uint16_t type, std::uint16_t flags) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    append({reinterpret_cast<std::uint8_t const*>(&header), sizeof header});
}

void Message::append(std::span<std::uint8_t const> bytes) {
    bytes_.append(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    bytes_.resize(NLMSG_ALIGN(bytes_.size()), '\0');
}

std::size_t Message::start_attribute(std::uint16_t type) {
    std::size_t const start = bytes_.size();
    rtattr attribute{};
    attribute.rta_type = type;
    append({reinterpret_cast<std::uint8_t const*>(&attribute), sizeof attribute});
    return start;
}

void Message::end_attribute(std::size_t start) {
    auto const length = static_cast<std::uint16_t>(bytes_.size() - start);
    std::memcpy(bytes_.data() + start, &length, sizeof length);
}

Message& Message::put(std::uint16_t type, std::span<std::uint8_t const> content) {
    std::size_t const start = start_attribute(type);
    bytes_.append(reinterpret_cast<char const*>(content.data()), content.size());
    end_attribute(start);  // before the padding, which does not count
    bytes_.resize(NLMSG_ALIGN(bytes_.size()), '\0');
    return *this;
}

Message& Message::put(std::uint16_t type, std::string_view text) {
    std::string const ended(text);  // the kernel wants the NUL
    return put(type, {reinterpret_cast<std::uint8_t const*>(ended.c_str()), ended.size() + 1});
}

Message& Message::put(std::uint16_t type, std::uint32_t number) {
    return put(type, {reinterpret_cast<std::uint8_t const*>(&number), sizeof number});
}

Message& Message::put_byte(std::uint16_t type, std::uint8_t number) { return put(type, {&number, 1}); }

std::size_t Message::open(std::uint16_t type) { return start_attribute(type); }
void Message::close(std::size_t opened) { end_attribute(opened); }

std::string const& Message::finish(std::uint32_t sequence) {
    nlmsghdr header{};
    std::memcpy(&header, bytes_.data(), sizeof header);
    header.nlmsg_len = static_cast<std::uint32_t>(bytes_.size());
    header.nlmsg_seq = sequence;
    std::memcpy(bytes_.data(), &header, sizeof header);
    return bytes_;
}

std::optional<std::string_view> find_attribute(std::string_view attributes, std::uint16_t type) {
    while (attributes.size() >= sizeof(rtattr)) {  // the kernel's own answer; each round consumes a part
        rtattr attribute{};
        std::memcpy(&attribute, attributes.data(), sizeof attribute);
        if (attribute.rta_len < sizeof attribute || attribute.rta_len > attributes.size()) return std::nullopt;
        if ((attribute.rta_type & NLA_TYPE_MASK) == type)
            return attributes.substr(sizeof attribute, attribute.rta_len - sizeof attribute);
        attributes.remove_prefix(std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), attributes.size()));
    }
    return std::nullopt;
}

std::optional<std::uint32_t> number_of(std::optional<std::string_view> content) {
    std::uint32_t number = 0;
    if (!content || content->size() < sizeof number) return std::nullopt;
    std::memcpy(&number, content->data(), sizeof number);
    return number;
}

std::string text_of(std::optional<std::string_view> content) {
    if (!content) return {};
    return std::string(content->substr(0, content->find('\0')));
}

}  // namespace triton::netlink
