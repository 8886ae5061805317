#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/info/document.h"
#include "lib/json/writer.h"

namespace triton::info {

/// One change of a machine: a step from one state to the next.
struct Change {
    enum class Action : std::uint8_t { added, changed, removed };

    std::string path;  ///< "alias", "nics.0.ip": the index of the new state, or the old one if it is gone
    Action action = Action::changed;
    std::string from;   ///< JSON; empty: there was no value
    std::string to;     ///< JSON; empty: there is no value
    std::string ident;  ///< the element of a list that it is about, as by the mac of a NIC; empty: none

    bool operator==(Change const&) const = default;
};

/// If there are more changes of one property, they become one change of the whole property.
inline constexpr std::size_t most_changes = 1000;

/// The changes from `before` to `after`, in one view. Elements of lists are matched by their names: NICs by mac,
/// filesystems by target, snapshots by name, programs of a launcher by name and their processes by number. Other lists
/// are compared as whole values.
std::vector<Change> diff(Document const& before, Document const& after, View view);
/// The same for one property, by its values in JSON; empty: no value.
std::vector<Change> diff(std::string_view property, std::string_view from, std::string_view to);

/// Writes {path, prettyPath, action, from, to, oldValue, newValue, ident}: the names of both the design and the shipped
/// vminfod. Without a value, oldValue, newValue and ident are absent, and from and to are null.
void write_change(json::Writer& out, Change const& change);

}  // namespace triton::info
