#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/machine.h"
#include "lib/json/problem.h"

namespace triton::machine {

/// The faults of a payload, in the lists that `vmadm validate` prints, and as sentences.
struct Faults {
    std::optional<std::string> bad_brand = {};  ///< alone: without a valid brand nothing else can be judged
    std::vector<std::string> bad_values = {};
    std::vector<std::string> bad_properties = {};
    std::vector<std::string> missing_properties = {};
    std::vector<std::string> reasons = {};  ///< a sentence for each

    [[nodiscard]] bool is_empty() const { return reasons.empty(); }
    /// Returns {"bad_values":["ram"],"reasons":["ram: expected an integer, found \"much\""]}, for example.
    [[nodiscard]] std::string json() const;
    /// An error of the first reason, with the others as details. `attempted`: "create VM".
    [[nodiscard]] Error error(std::string_view attempted) const;
};

template <class T>
using Checked = std::expected<T, Faults>;

/// Reads the text of a payload: one JSON object. Errors: invalid, "Invalid JSON payload: ...".
Result<json::Object> read_payload(std::string_view text);

/// The result of reading a payload for create().
struct Creation {
    Machine machine;
    std::vector<std::string> ignored = {};  ///< keys that we do not know
    std::vector<std::string> notices = {};  ///< values that were changed, and why, or that have no effect
    bool has_quota = true;                  ///< the payload has one: otherwise it is the default
};

/// The key of the head of a stream that no payload has.
inline constexpr std::string_view created_key = "create_timestamp";
/// The payload in the head of a stream: that of create, and when the machine was created.
std::string sent_payload(Machine const& machine);
/// Takes that time out of such a payload; nullopt: an earlier version has sent none. Errors: invalid.
Result<std::optional<std::string>> take_create_timestamp(json::Object& payload);

/// Reads and checks the payload of a new machine, and adds what is missing. `now`: microseconds since 1970.
Checked<Creation> read_creation(json::Object const& payload, std::int64_t now);

/// One property that an update changes. Both values are JSON; empty: not set.
struct Change {
    std::string property;
    std::string before;
    std::string after;

    bool operator==(Change const&) const = default;
};

struct Update {
    Machine machine;
    std::vector<Change> changes = {};
    std::vector<std::string> ignored = {};
    std::vector<std::string> notices = {};
    /// The changes that a running machine notices only at its next start.
    [[nodiscard]] std::vector<std::string> at_start() const;
};

/// Applies the payload of an update to a machine. Unknown properties, and those that cannot be changed, go into
/// `ignored`.
Checked<Update> read_update(Machine const& before, json::Object const& payload);

/// The payload of create for a machine that has everything that an update's payload refers to: so an update can be
/// judged without its machine. Its NICs have stand_in_tag, which no configuration knows.
json::Object stand_in(json::Object const& update);
inline constexpr std::string_view stand_in_tag = "any/tag";

/// The properties by which two states of a machine differ, in the order of the table.
std::vector<Change> differences(Machine const& before, Machine const& after);

}  // namespace triton::machine
