#pragma once

#include <span>
#include <string>
#include <string_view>

#include "host/machine/machine.h"
#include "host/machine/row.h"

namespace triton::machine {

/// Who sets a property.
enum class Set : std::uint8_t {
    by_us,      ///< nobody else
    at_create,  ///< create's payload, and never again
    required,   ///< likewise, and create's payload must have it
    any_time,   ///< create and update
};

/// When a running machine notices a change.
enum class Takes : std::uint8_t {
    never,  ///< never: it is kept and shown; nothing on Linux depends on it
    at_once,
    at_start,  ///< at its next start
};

/// Where the authoritative value is.
enum class Place : std::uint8_t {
    machine_file,   ///< machines/<uuid>.json
    metadata_file,  ///< config/metadata.json in the machine's tree
    tags_file,      ///< config/tags.json
    routes_file,    ///< config/routes.json
    launch_file,    ///< config/launch/config.json
    hidden,         ///< machines/<uuid>.json, but not shown
    payload,        ///< nowhere: it tells create what to do
    observed,       ///< nowhere: it is observed when asked for
};

/// How `vmadm list` shows it.
struct Column {
    std::size_t width = 0;        ///< 0: it is not a column
    std::string_view title = {};  ///< empty: the name in upper case
};

/// How parts of it can be updated.
enum class Parts : std::uint8_t {
    none,
    keys,     ///< set_<name> (an object), remove_<name> (a list of keys)
    objects,  ///< add_<name>, update_<name> (objects), remove_<name> (a list of keys)
};

struct PropertyRules {
    Set set = Set::any_time;
    Takes takes = Takes::never;
    Column column = {};
    Place place = Place::machine_file;
    Shown shown = Shown::when_set;
    std::string_view alias = {};  ///< an older name that payloads may use
    Parts parts = Parts::none;
    std::string_view key = {};  ///< for Parts::objects: the member with the name
    bool is_secret = false;     ///< only root, and whom root trusts, may see it
    bool is_idle = false;       ///< SmartOS acts on it and nothing here does, so that who asks for it is told
};

/// One property of a machine: its reader, its writer and everything known about it. The table drives the reading and
/// checking of payloads, updates, `get`, `list`, filters, the reference page and the completions.
struct Property {
    std::string_view name = {};
    json::Need need = json::Need::optional;
    json::NeededWhen<json::Reading> needed_when = {};
    json::Value<Machine, json::Reading> value = {};
    std::string_view description = {};
    Write<Machine> write = nullptr;
    void (*clear)(Machine& machine) = nullptr;
    PropertyRules rules = {};
    Write<Machine> write_open = nullptr;  ///< for a partly secret value: writes the rest

    [[nodiscard]] bool is_settable() const { return rules.set != Set::by_us; }
    /// Whether it is in the machine's own file.
    [[nodiscard]] bool is_stored() const { return rules.place == Place::machine_file || rules.place == Place::hidden; }
    /// Whether any file keeps it.
    [[nodiscard]] bool is_kept() const { return rules.place != Place::observed && rules.place != Place::payload; }
    /// Whether `vmadm get` shows it.
    [[nodiscard]] bool is_public() const { return rules.place != Place::hidden && rules.place != Place::payload; }
    /// Whether every user of the host may see it or a part of it.
    [[nodiscard]] bool is_open() const { return is_public() && !rules.is_secret; }
    /// Whether a part of it is secret.
    [[nodiscard]] bool has_secrets() const { return rules.is_secret || write_open != nullptr; }
    /// Writes the part that every user of the host may see, if is_open().
    void write_for_all(Machine const& machine, json::Writer& out) const {
        (write_open ? write_open : write)(name, machine, out);
    }
    /// Returns "CPU_SHARE", for example.
    [[nodiscard]] std::string title() const;
};

std::span<Property const> table(json::TableOf<Machine, json::Reading>);
inline std::span<Property const> properties() { return table(json::TableOf<Machine, json::Reading>{}); }

/// Comes before what others wrote in `failure`, which only root may see.
inline constexpr std::string_view failure_words = "; it said: ";

/// Finds a property by its name or older name; nullptr: there is none.
Property const* find_property(std::string_view name);
/// Whether only virtual machines with their own hardware have it: then it is refused rather than unknown.
bool is_for_hardware(std::string_view name);

/// The value as JSON; empty: it is not set.
std::string value_text(Property const& property, Machine const& machine);

std::string_view name_of(State state);
/// Of all states, and "unreadable", which stands for that of a machine whose file cannot be read.
std::span<std::string_view const> names_of_states();
std::string_view name_of(Phase phase);

/// The JSON object that `vmadm get` shows, in one line.
std::string public_text(Machine const& machine);
/// The same without secrets.
std::string open_text(Machine const& machine);
/// The content of machines/<uuid>.json.
std::string file_text(Machine const& machine);
/// The same with the values of other files: for the mark of an operation.
std::string whole_text(Machine const& machine);
/// The payload of `vmadm create` for such a machine.
std::string payload_text(Machine const& machine);
/// Reads the content of a file or of a mark. Errors: corrupt, with every problem in the details. Unknown keys are
/// ignored, because a newer version may have written them.
Result<Machine> parse_file(std::string_view text, std::string_view path);

/// The reference page of the properties, in Markdown.
std::string reference_page();
/// The same as the source of vmadm-properties(5), see scdoc(5).
std::string manual_page();

}  // namespace triton::machine
