#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace triton::network {

/// How a machine's link is joined to a link of the host.
enum class Attachment : std::uint8_t {
    bridge,   ///< a port of a bridge, by a veth pair
    macvlan,  ///< a second hardware address of a link
};
inline constexpr std::array<std::string_view, 2> attachment_names{"bridge", "macvlan"};

/// A network of the host, under the name that NICs of machines use.
struct NicTag {
    std::string name;
    Attachment attachment = Attachment::bridge;
    std::string link;  ///< on the host: "br0"
};

/// The networks that the host's configuration names:
///
///     {"network": {"nic_tags": {"admin": {"bridge": "br0"}, "external": {"macvlan": "eth1"}}}}
class Tags {
public:
    Tags() = default;
    explicit Tags(std::vector<NicTag> tags) : tags_(std::move(tags)) {}

    /// Reads a file. If it does not exist or has no such section there are no networks. Errors: `invalid`, with the
    /// place: "/etc/triton/triton.json: network.nic_tags.admin: expected bridge or macvlan".
    static Result<Tags> read(std::string const& path);
    static Result<Tags> parse(std::string_view text, std::string const& path);

    [[nodiscard]] NicTag const* find(std::string_view name) const;
    /// Errors: `not_found`: `unknown nic_tag "x" (known: admin, external)`.
    [[nodiscard]] Result<NicTag> get(std::string_view name) const;

private:
    std::vector<NicTag> tags_;
};

/// Whether the kernel accepts a link's name. Source: dev_valid_name() of Linux.
bool is_link_name(std::string_view name);

}  // namespace triton::network
