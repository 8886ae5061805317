#include "host/machine/payload.h"

#include <algorithm>
#include <array>
#include <span>

#include "host/machine/nic.h"
#include "host/machine/properties.h"
#include "host/machine/values.h"

namespace triton::machine {

namespace {

constexpr std::array<std::string_view, 1> brands{"lx"};
constexpr std::int64_t least_swap = 256;
constexpr std::size_t most_problems = 100;
constexpr std::size_t most_payload_bytes = 16 << 20;

json::Member* find(json::Object& object, std::string_view key) {
    auto const member = std::ranges::find(object, key, &json::Member::key);
    return member == object.end() ? nullptr : &*member;
}
json::Member const* find(json::Object const& object, std::string_view key) {
    auto const member = std::ranges::find(object, key, &json::Member::key);
    return member == object.end() ? nullptr : &*member;
}

/// Whether a value clears its property: null and "" do.
bool clears(json::Node const& node) {
    auto const* const text = node.get<std::string>();
    return node.get<json::Null>() || (text && text->empty());
}

/// Whether a value asks for something: off and empty is what a machine has anyway.
bool asks(json::Node const& node) {
    auto const* const flag = node.get<bool>();
    auto const* const text = node.get<std::string>();
    auto const* const list = node.get<json::Array>();
    return !(flag && !*flag) && !(text && *text == "false") && !(list && list->empty());
}

/// Collects what is wrong with the values of a payload.
class Reader {
public:
    explicit Reader(Faults& faults) : faults_(faults) {}

    /// Reads one value into the machine.
    void read(Property const& property, json::Node const& node, Machine& machine) {
        json::Reading reading(most_problems);
        json::Where const top{};
        property.value.parse(node, json::Where{&top, property.name}, machine, reading);
        for (json::Problem& warning : std::move(reading.warnings).take())
            ignored_.push_back(warning.text());
        if (property.rules.is_idle && asks(node))
            notices_.push_back(std::string(property.name) + " has no effect on this host");
        if (reading.problems.empty()) return;
        faults_.bad_values.emplace_back(property.name);
        for (json::Problem& problem : std::move(reading.problems).take())
            faults_.reasons.push_back(problem.text());
    }
    /// Reads a size of memory under another name than that of its property.
    std::optional<std::int64_t> read_mebibytes(std::string_view name, json::Node const& node) {
        json::Reading reading(most_problems);
        json::Where const top{};
        auto const size = Mebibytes::read(node, json::Where{&top, name}, reading);
        for (json::Problem const& problem : std::move(reading.problems).take())
            bad_value(name, problem.text());
        return size;
    }
    void refuse(std::string_view name, std::string reason) {
        faults_.bad_properties.emplace_back(name);
        faults_.reasons.push_back(std::move(reason));
    }
    void bad_value(std::string_view name, std::string reason) {
        if (std::ranges::find(faults_.bad_values, name) == faults_.bad_values.end())
            faults_.bad_values.emplace_back(name);
        faults_.reasons.push_back(std::move(reason));
    }
    void miss(std::string_view name) {
        faults_.missing_properties.emplace_back(name);
        faults_.reasons.push_back(std::string(name) + ": required key is missing");
    }
    void ignore(std::string text) { ignored_.push_back(std::move(text)); }
    [[nodiscard]] std::vector<std::string> take_ignored() { return std::move(ignored_); }
    [[nodiscard]] std::vector<std::string> take_notices() { return std::move(notices_); }

private:
    Faults& faults_;
    std::vector<std::string> ignored_;
    std::vector<std::string> notices_;
};

std::string unknown_key(std::string_view key) {
    std::vector<std::string_view> known;
    for (Property const& property : properties())
        known.push_back(property.name);
    return "unknown property " + json::quoted(key) + json::suggestion(key, known);
}

/// Refuses keys that are given twice: nobody can know which value was meant.
void check_twice(json::Object const& payload, Reader& reader) {
    for (std::size_t i = 0; i < payload.size(); ++i) {
        bool const is_again = std::any_of(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(i),
                                          [&](json::Member const& other) { return other.key == payload[i].key; });
        if (is_again) reader.bad_value(payload[i].key, payload[i].key + ": is given twice");
    }
}

bool check_brand(json::Object const& payload, Faults& faults) {
    json::Member const* const member = find(payload, "brand");
    auto const* const brand = member ? member->node.get<std::string>() : nullptr;
    if (!brand || std::ranges::find(brands, *brand) != brands.end()) return true;
    faults.bad_brand = *brand;
    faults.reasons.push_back("Invalid brand: " + json::quoted(*brand) + " (known: lx)");
    return false;
}

/// Whether a key tells an update what to do: set_tags, remove_nics.
bool is_for_update(std::string_view key);

void read_keys_of_creation(json::Object const& payload, Machine& machine, Reader& reader) {
    for (json::Member const& member : payload) {
        Property const* const property = find_property(member.key);
        if (!property && is_for_hardware(member.key))
            reader.refuse(member.key, member.key + ": is for virtual hardware, which a container does not have");
        else if (!property && is_for_update(member.key))
            reader.refuse(member.key, member.key + ": is for updates; a new VM has what " +
                                          member.key.substr(member.key.find('_') + 1) + " says");
        else if (!property)
            reader.ignore(unknown_key(member.key));
        else if (property->name == "ram")
            continue;  // handled by read_ram()
        else if (!property->is_settable())
            reader.ignore(member.key + " is not for payloads");
        else if (!clears(member.node))
            reader.read(*property, member.node, machine);
    }
}

/// Reads `ram`, which means max_physical_memory unless that is given, too.
void read_ram(json::Object const& payload, Machine& machine, Reader& reader) {
    json::Member const* const ram = find(payload, "ram");
    if (!ram) return;
    json::Member const* const memory = find(payload, "max_physical_memory");
    bool const is_other_given = memory && !clears(memory->node);
    if (clears(ram->node)) {
        if (!memory) machine.max_physical_memory.reset();
        return;
    }
    auto const read = reader.read_mebibytes("ram", ram->node);
    if (!read) return;
    if (!is_other_given)
        machine.max_physical_memory = read;
    else if (machine.max_physical_memory && machine.max_physical_memory != read)
        reader.ignore("ram: max_physical_memory is given, too");
}

template <class T, class Value>
void give(std::optional<T>& member, Value value) {
    if (!member) member = std::move(value);
}

void fill_in(Machine& machine) {
    give(machine.zonename, machine.uuid.text());
    give(machine.hostname, *machine.zonename);
    give(machine.dns_domain, "local");
    give(machine.owner_uuid, Uuid());
    give(machine.billing_id, Uuid());
    give(machine.autoboot, true);
    give(machine.firewall_enabled, false);
    give(machine.cpu_shares, 100);
    give(machine.max_lwps, 2000);
    give(machine.max_physical_memory, 256);
    std::int64_t const memory = *machine.max_physical_memory;
    give(machine.max_swap, std::max(memory, least_swap));
    give(machine.max_locked_memory, memory);
    give(machine.tmpfs, memory);
    give(machine.max_shm_memory, memory);
    give(machine.max_msg_ids, 4096);
    give(machine.max_sem_ids, 4096);
    give(machine.max_shm_ids, 4096);
    give(machine.quota, 10);
    give(machine.zfs_io_priority, 100);
}

/// Brings a value within its bounds, and reports that.
void clamp(std::string_view name, std::optional<std::int64_t>& value, std::int64_t lowest, std::int64_t highest,
           std::vector<std::string>& notices) {
    if (!value || (*value >= lowest && *value <= highest)) return;
    std::int64_t const clamped = std::clamp(*value, lowest, highest);
    notices.push_back(std::string(name) + ": " + std::to_string(*value) + " becomes " + std::to_string(clamped) +
                      (*value < lowest ? ", which is the least" : ", which is the most") +
                      " with this max_physical_memory");
    value = clamped;
}

/// Makes the sizes of memory fit each other, and tells what another property makes useless.
void couple(Machine& machine, std::vector<std::string>& notices) {
    std::int64_t const memory = machine.max_physical_memory.value_or(256);
    clamp("max_swap", machine.max_swap, std::max(memory, least_swap), INT64_MAX, notices);
    std::int64_t const most = memory > 0 ? memory : INT64_MAX;
    clamp("max_locked_memory", machine.max_locked_memory, 0, most, notices);
    clamp("tmpfs", machine.tmpfs, 0, most, notices);
    if (machine.launch && machine.init_name)
        notices.push_back("init_name: it is stored, but not used: the PID 1 of a VM with launch is triton-launch");
}

void note_unlimited(Machine const& machine, std::vector<std::string>& notices) {
    if (machine.max_physical_memory == std::optional<std::int64_t>(0))
        notices.push_back("max_physical_memory: 0 is no limit: the VM can use all memory of the host");
}

/// Tells whose the files of the host's directories are for the machine.
void note_filesystems(Machine const& machine, std::vector<std::string>& notices) {
    for (std::size_t i = 0; i < machine.filesystems.size(); ++i) {
        Filesystem const& filesystem = machine.filesystems[i];
        if (is_volume(filesystem)) continue;  // its files are the machine's own
        std::string const at = "filesystems[" + std::to_string(i) + "]: ";
        if (is_mapped(filesystem) && !is_read_only(filesystem))
            notices.push_back(at +
                              "idmap: root of the VM writes there as root of the host, setuid programs too: let no "
                              "user of the host reach " +
                              json::shown(filesystem.source));
        else if (!is_mapped(filesystem) && !is_read_only(filesystem))
            notices.push_back(
                at + "the files of " + json::shown(filesystem.source) +
                " belong to nobody in the VM, which can write only what everybody can write; see idmap in "
                "vmadm(8)");
    }
}

/// A path without needless slashes and dots: "/a//./b/" is "/a/b", and "/." is empty.
std::string place_of(std::string_view path) {
    std::string place;
    while (!path.empty()) {
        std::size_t const slash = std::min(path.find('/'), path.size());
        std::string_view const part = path.substr(0, slash);
        if (!part.empty() && part != ".") place.append("/").append(part);
        path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return place;
}

/// What systemd-nspawn can do for a directory of the host. It has nothing for nosuid, nodev and noexec.
void check_options(Filesystem const& filesystem, std::string const& at, Reader& reader) {
    static constexpr std::array<std::string_view, 4> known{"ro", "readonly", "rw", "idmap"};
    for (std::string const& option : filesystem.options)
        if (std::ranges::find(known, option) == known.end())
            reader.bad_value("filesystems", at + "options: unknown option " + json::quoted(option) +
                                                " (known: ro, readonly, rw, idmap)");
    if (is_volume(filesystem) && is_mapped(filesystem))
        reader.bad_value("filesystems", at + "options: a volume needs no idmap: its files are the machine's own");
    if (is_read_only(filesystem) && std::ranges::find(filesystem.options, "rw") != filesystem.options.end())
        reader.bad_value("filesystems", at + "options: rw and ro exclude each other");
}

/// The source of a directory of the host.
void check_source(Filesystem const& filesystem, std::string const& at, Reader& reader) {
    std::string const& source = filesystem.source;
    bool const goes_up = (source + "/").find("/../") != std::string::npos;
    if (!source.empty() && (source.front() != '/' || goes_up))
        reader.bad_value("filesystems", at + "source: " + json::quoted(source) +
                                            (goes_up ? " must not have \"..\"" : " is not an absolute path"));
}

/// `before`: those that the machine has already; an earlier version has accepted any options, without effect.
void check_filesystems(std::vector<Filesystem> const& filesystems, std::vector<Filesystem> const& before,
                       Reader& reader) {
    static constexpr std::array<std::string_view, 3> types{"lofs", "bind", volume_type};
    for (std::size_t i = 0; i < filesystems.size(); ++i) {
        Filesystem const& filesystem = filesystems[i];
        std::string const at = "filesystems[" + std::to_string(i) + "].";
        if (filesystem.type.empty() || filesystem.target.empty()) continue;  // its reader has reported that
        if (std::ranges::find(types, filesystem.type) == types.end())
            reader.bad_value("filesystems", at + "type: unknown type " + json::quoted(filesystem.type) +
                                                " (known: lofs, bind, volume)");
        if (!is_volume(filesystem)) check_source(filesystem, at, reader);
        auto const is_same = [&](Filesystem const& other) {
            return other.target == filesystem.target && other.options == filesystem.options;
        };
        if (std::ranges::none_of(before, is_same)) check_options(filesystem, at, reader);
        std::string const place = place_of(filesystem.target);
        if (place.empty()) reader.bad_value("filesystems", at + "target: would hide the whole of the machine");
        auto const earlier = std::span(filesystems).first(i);
        if (std::ranges::any_of(earlier, [&](Filesystem const& other) { return place_of(other.target) == place; }))
            reader.bad_value("filesystems", at + "target: " + json::shown(filesystem.target) + " is there twice");
    }
}

/// The labels of host names, whose limits systemd-nspawn and resolvers have. Source: RFC 1123, 2.1.
void check_labels(Machine const& machine, Machine const& before, Reader& reader) {
    constexpr std::size_t longest_label = 63;
    struct Row {
        std::string_view name;
        std::optional<std::string> Machine::* member;
    };
    static constexpr std::array<Row, 3> names{
        {{"zonename", &Machine::zonename}, {"hostname", &Machine::hostname}, {"dns_domain", &Machine::dns_domain}}};
    for (Row const& row : names) {
        if (machine.*row.member == before.*row.member) continue;
        std::string_view rest = *(machine.*row.member);
        while (!rest.empty()) {
            std::string_view const label = rest.substr(0, rest.find('.'));
            rest.remove_prefix(std::min(rest.size(), label.size() + 1));
            std::string const at = std::string(row.name) + ": ";
            if (label.size() > longest_label)
                reader.bad_value(row.name, at + json::shown(label) + " has " + std::to_string(label.size()) +
                                               " characters, and a label of a host name has 63 at most");
            else if (label.starts_with('-') || label.ends_with('-'))
                reader.bad_value(row.name, at + json::shown(label) + " begins or ends with a dash");
        }
    }
}

/// `before`: a machine that an earlier version has made may have values that are refused now.
void check_whole(Machine& machine, Machine const& before, Reader& reader) {
    check_filesystems(machine.filesystems, before.filesystems, reader);
    check_labels(machine, before, reader);
    if (auto const named = normalise_nics(machine.nics); !named) reader.bad_value("nics", named.error().text());
    for (std::string& fault : nic_faults(machine.nics))
        reader.bad_value("nics", std::move(fault));
    for (std::string& fault : route_faults(machine.routes))
        reader.bad_value("routes", std::move(fault));
    for (std::string const& resolver : machine.resolvers) {
        if (!parse_host(resolver))
            reader.bad_value("resolvers", "resolvers: " + json::quoted(resolver) + " is not an address");
    }
}

// --- updates ---

/// What a verb does to which property: set_tags, remove_tags, add_nics ..
struct Verb {
    enum class What : std::uint8_t { set, add, update, remove };
    What what;
    Property const* property;
};

std::optional<Verb> find_verb(std::string_view key) {
    struct Prefix {
        std::string_view text;
        Verb::What what;
        Parts parts;
    };
    static constexpr std::array<Prefix, 5> prefixes{{
        {"set_", Verb::What::set, Parts::keys},
        {"remove_", Verb::What::remove, Parts::keys},
        {"add_", Verb::What::add, Parts::objects},
        {"update_", Verb::What::update, Parts::objects},
        {"remove_", Verb::What::remove, Parts::objects},
    }};
    for (Prefix const& prefix : prefixes) {
        if (!key.starts_with(prefix.text)) continue;
        Property const* const property = find_property(key.substr(prefix.text.size()));
        if (property && property->rules.parts == prefix.parts) return Verb{prefix.what, property};
    }
    return std::nullopt;
}

bool is_for_update(std::string_view key) { return find_verb(key).has_value(); }

/// The value of a property as a node, which is changed and read again.
json::Node node_of(Property const& property, Machine const& machine) {
    json::ProblemList problems(1);
    std::string const text = value_text(property, machine);
    auto node =
        json::read_json(text.empty() ? "null" : text, json::Limits{.document_bytes = most_payload_bytes}, problems);
    return node ? std::move(*node) : json::Node{};
}

/// The texts of a list of keys; without one a fault is added. Keys of tags may have any characters.
std::optional<std::vector<std::string>> keys_of(std::string_view name, json::Node const& node, Reader& reader) {
    std::vector<std::string> texts;
    auto const* const array = node.get<json::Array>();
    for (std::size_t i = 0; array && i < array->size(); ++i)
        if (auto const* const text = (*array)[i].get<std::string>()) texts.push_back(*text);
    if (array && texts.size() == array->size()) return texts;
    json::Reading reading(most_problems);
    json::Where const top{};
    auto keys = read_list(node, json::Where{&top, name}, reading);
    for (json::Problem const& problem : std::move(reading.problems).take())
        reader.bad_value(name, problem.text());
    return keys;
}

void apply_to_keys(Verb const& verb, json::Member const& given, Machine& machine, Reader& reader) {
    json::Node node = node_of(*verb.property, machine);
    if (!node.get<json::Object>()) node.value = json::Object{};
    auto& object = std::get<json::Object>(node.value);
    if (verb.what == Verb::What::remove) {
        auto const keys = keys_of(given.key, given.node, reader);
        if (!keys) return;
        for (std::string const& key : *keys) {
            if (std::erase_if(object, [&key](json::Member const& member) { return member.key == key; }) == 0)
                reader.ignore(given.key + ": there is no " + json::quoted(key));
        }
    } else {
        auto const* const values = given.node.get<json::Object>();
        if (!values)
            return reader.bad_value(given.key,
                                    given.key + ": expected an object, found " + std::string(given.node.kind()));
        for (json::Member const& value : *values) {
            if (json::Member* const old = find(object, value.key))
                old->node = value.node;
            else
                object.push_back(value);
        }
    }
    reader.read(*verb.property, node, machine);
}

/// How a member that names an object is compared: a MAC can be spelled in several ways.
std::string canonical_key(std::string const& text) { return canonical_mac(text).value_or(text); }

std::string const* key_of(json::Node const& node, std::string_view key) {
    auto const* const object = node.get<json::Object>();
    json::Member const* const member = object ? find(*object, key) : nullptr;
    return member ? member->node.get<std::string>() : nullptr;
}

json::Node* find_object(json::Array& list, std::string_view key, std::string const& wanted) {
    for (json::Node& node : list) {
        std::string const* const has = key_of(node, key);
        if (has && canonical_key(*has) == canonical_key(wanted)) return &node;
    }
    return nullptr;
}

/// Removes derived values that are out of date: an old `ip` must not override a new `ips`.
void forget_derived(json::Object& object, json::Object const& given) {
    auto const forget = [&](std::string_view changed, std::initializer_list<std::string_view> derived) {
        if (!find(given, changed)) return;
        for (std::string_view const name : derived)
            if (!find(given, name))
                std::erase_if(object, [name](json::Member const& member) { return member.key == name; });
    };
    forget("ips", {"ip", "netmask"});
    forget("gateways", {"gateway"});
}

/// The entry of `ips` that `ip` tells of.
json::Array::iterator told_by_ip(json::Array& ips) {
    auto const find = [&ips](auto is_it) {
        return std::ranges::find_if(ips, [&is_it](json::Node const& node) {
            auto const* const text = node.get<std::string>();
            return text && is_it(*text);
        });
    };
    auto const address = find([](std::string const& text) {
        auto const parsed = parse_address(text);
        return parsed && parsed->family == Family::v4;
    });
    return address != ips.end() ? address : find(is_dynamic);
}

/// Puts a text into a list, in the place of an entry or before the first; without a text nothing of the list stays.
void put_in_place(json::Object& object, std::string_view name, std::optional<std::string> const& text,
                  json::Array::iterator (*place_in)(json::Array&)) {
    json::Member* const member = find(object, name);
    auto* const list = member ? std::get_if<json::Array>(&member->node.value) : nullptr;
    if (!list || !text) {  // then it is made from what there is
        std::erase_if(object, [name](json::Member const& other) { return other.key == name; });
        return;
    }
    auto const place = place_in(*list);
    if (place == list->end())
        list->insert(list->begin(), json::Node{*text});
    else
        place->value = *text;
}

/// Makes `ips` and `gateways` of what is given for their first entries by `ip`, `netmask` and `gateway`. Their other
/// entries stay.
void follow_first(json::Object& object, json::Object const& given) {
    auto const text_of = [&object](std::string_view name) {
        json::Member const* const member = find(object, name);
        auto const* const text = member ? member->node.get<std::string>() : nullptr;
        return text ? std::optional(*text) : std::nullopt;
    };
    if ((find(given, "ip") || find(given, "netmask")) && !find(given, "ips")) {
        auto const ip = text_of("ip");
        put_in_place(object, "ips", ip ? std::optional(entry_of(*ip, text_of("netmask"))) : std::nullopt, told_by_ip);
    }
    if (find(given, "gateway") && !find(given, "gateways"))
        put_in_place(object, "gateways", text_of("gateway"), [](json::Array& gateways) { return gateways.begin(); });
}

void update_object(Verb const& verb, std::string_view name, json::Node const& given, json::Array& list,
                   Reader& reader) {
    std::string_view const key = verb.property->rules.key;
    std::string const* const wanted = key_of(given, key);
    if (!wanted) return reader.bad_value(name, std::string(name) + ": each needs a " + json::quoted(key));
    json::Node* const node = find_object(list, key, *wanted);
    if (!node) return reader.bad_value(name, std::string(name) + ": there is no " + json::shown(*wanted));
    auto& object = std::get<json::Object>(node->value);
    auto const& values = std::get<json::Object>(given.value);
    forget_derived(object, values);
    for (json::Member const& value : values) {
        if (value.key == "interface")
            reader.ignore("interface of " + *wanted + " cannot be changed");
        else if (clears(value.node))
            std::erase_if(object, [&](json::Member const& member) { return member.key == value.key; });
        else if (json::Member* const old = find(object, value.key))
            old->node = value.node;
        else
            object.push_back(value);
    }
    follow_first(object, values);
}

/// When a new interface is primary, the old one no longer is.
void move_primary(json::Array& list, json::Array const& given) {
    bool const takes = std::ranges::any_of(given, [](json::Node const& node) {
        auto const* const object = node.get<json::Object>();
        json::Member const* const primary = object ? find(*object, "primary") : nullptr;
        json::Reading unused(1);
        return primary && read_flag(primary->node, json::Where{}, unused).value_or(false);
    });
    if (!takes) return;
    for (json::Node& node : list)
        if (auto* const object = std::get_if<json::Object>(&node.value))
            std::erase_if(*object, [](json::Member const& member) { return member.key == "primary"; });
}

void apply_to_objects(Verb const& verb, json::Member const& given, Machine& machine, Reader& reader) {
    json::Node node = node_of(*verb.property, machine);
    if (!node.get<json::Array>()) node.value = json::Array{};
    auto& list = std::get<json::Array>(node.value);
    std::string_view const key = verb.property->rules.key;
    if (verb.what == Verb::What::remove) {
        auto const keys = keys_of(given.key, given.node, reader);
        if (!keys) return;
        for (std::string const& wanted : *keys) {
            json::Node const* const found = find_object(list, key, wanted);
            if (found)
                list.erase(list.begin() + (found - list.data()));
            else
                reader.ignore(given.key + ": there is no " + json::shown(wanted));
        }
    } else {
        auto const* const array = given.node.get<json::Array>();
        if (!array) return reader.bad_value(given.key, std::string(given.key) + " must be an array.");
        move_primary(list, *array);
        for (json::Node const& element : *array) {
            if (verb.what == Verb::What::add)
                list.push_back(element);
            else
                update_object(verb, given.key, element, list, reader);
        }
    }
    reader.read(*verb.property, node, machine);
}

void read_key_of_update(json::Member const& member, Machine& machine, Reader& reader) {
    if (auto const verb = find_verb(member.key)) {
        if (verb->property->rules.parts == Parts::keys) return apply_to_keys(*verb, member, machine, reader);
        return apply_to_objects(*verb, member, machine, reader);
    }
    Property const* const property = find_property(member.key);
    if (!property && is_for_hardware(member.key))
        return reader.refuse(member.key, member.key + ": is for virtual hardware, which a container does not have");
    if (!property) return reader.ignore(unknown_key(member.key));
    if (property->name == "ram") return;
    if (property->rules.set != Set::any_time) return reader.ignore(member.key + " cannot be changed");
    if (clears(member.node)) return property->clear(machine);
    reader.read(*property, member.node, machine);
}

/// Lets other values follow the size of memory unless they are given: the distance of locked memory and swap, and the
/// ratio of tmpfs. A swap that was at its minimum is tied to the memory again.
void follow_memory(Machine const& before, json::Object const& payload, Machine& machine) {
    if (!before.max_physical_memory || machine.max_physical_memory == before.max_physical_memory) return;
    give(machine.max_physical_memory, 256);
    std::int64_t const old = *before.max_physical_memory;
    std::int64_t const memory = *machine.max_physical_memory;
    if (before.max_locked_memory && !find(payload, "max_locked_memory"))
        machine.max_locked_memory = std::max<std::int64_t>(0, memory + (*before.max_locked_memory - old));
    if (before.max_swap && !find(payload, "max_swap")) {
        bool const sat_on_floor = *before.max_swap == least_swap && old < least_swap;
        machine.max_swap = std::max(sat_on_floor ? memory : memory + (*before.max_swap - old), least_swap);
    }
    if (before.tmpfs && old > 0 && !find(payload, "tmpfs")) machine.tmpfs = (*before.tmpfs * memory + old / 2) / old;
}

}  // namespace

std::string Faults::json() const {
    json::Writer out;
    out.open('{');
    if (bad_brand) out.member("bad_brand", *bad_brand);
    auto const list = [&out](std::string_view name, std::vector<std::string> const& items) {
        if (!items.empty()) out.key(name).list(items);
    };
    list("bad_values", bad_values);
    list("bad_properties", bad_properties);
    list("missing_properties", missing_properties);
    list("reasons", reasons);
    out.close('}');
    return std::move(out).text();
}

Error Faults::error(std::string_view attempted) const {
    Error error = fail(ErrorKind::invalid, attempted, reasons.empty() ? "" : reasons.front()).error();
    if (reasons.size() > 1) error.details.assign(reasons.begin() + 1, reasons.end());
    return error;
}

Result<json::Object> read_payload(std::string_view text) {
    json::ProblemList problems(most_problems);
    auto node = json::read_json(text, json::Limits{.document_bytes = most_payload_bytes}, problems);
    if (!problems.empty()) return fail("Invalid JSON payload: " + std::move(problems).take().front().text());
    auto* const object = node ? std::get_if<json::Object>(&node->value) : nullptr;
    if (!object)
        return fail("Invalid JSON payload: expected an object, found " + std::string(node ? node->kind() : "nothing"));
    return std::move(*object);
}

std::string sent_payload(Machine const& machine) {
    std::string text = payload_text(machine);
    if (!machine.create_timestamp) return text;
    json::Writer created;
    created.open('{').member(created_key, *machine.create_timestamp).close('}');
    text.back() = ',';  // every machine has a uuid before it
    return text + std::move(created).text().substr(1);
}

Result<std::optional<std::string>> take_create_timestamp(json::Object& payload) {
    json::Member* const member = find(payload, created_key);
    if (!member) return std::nullopt;
    auto const* const text = member->node.get<std::string>();
    if (!text || !parse_time(*text))
        return fail(ErrorKind::invalid, "receive a VM",
                    std::string(created_key) + ": expected a time such as 2026-11-22T15:04:05.678Z");
    std::string created = *text;
    std::erase_if(payload, [](json::Member const& other) { return other.key == created_key; });
    return created;
}

Checked<Creation> read_creation(json::Object const& payload, std::int64_t now) {
    Faults faults;
    Reader reader(faults);
    if (!check_brand(payload, faults)) return std::unexpected(std::move(faults));
    Creation creation;
    Machine& machine = creation.machine;
    check_twice(payload, reader);
    read_keys_of_creation(payload, machine, reader);
    read_ram(payload, machine, reader);
    auto const is_given = [&payload](std::string_view key) {
        json::Member const* const member = find(payload, key);
        return member && !clears(member->node);
    };
    if (!is_given("brand")) reader.miss("brand");
    if (!is_given("image_uuid") && !is_given("dataset_uuid")) reader.miss("image_uuid");
    if (machine.uuid == Uuid()) {
        auto uuid = Uuid::random();
        if (uuid)
            machine.uuid = std::move(*uuid);
        else
            reader.bad_value("uuid", uuid.error().text());
    }
    creation.has_quota = is_given("quota");
    fill_in(machine);
    creation.notices = reader.take_notices();
    couple(machine, creation.notices);
    check_whole(machine, Machine{}, reader);
    note_filesystems(machine, creation.notices);
    note_unlimited(machine, creation.notices);
    machine.create_timestamp = time_text(now);
    creation.ignored = reader.take_ignored();
    if (!faults.is_empty()) return std::unexpected(std::move(faults));
    return creation;
}

std::vector<Change> differences(Machine const& before, Machine const& after) {
    std::vector<Change> changes;
    for (Property const& property : properties()) {
        if (property.rules.place == Place::observed || property.rules.place == Place::payload) continue;
        std::string old_text = value_text(property, before);
        std::string new_text = value_text(property, after);
        if (old_text != new_text)
            changes.push_back({std::string(property.name), std::move(old_text), std::move(new_text)});
    }
    return changes;
}

Checked<Update> read_update(Machine const& before, json::Object const& payload) {
    Faults faults;
    Reader reader(faults);
    Update update{.machine = before};
    check_twice(payload, reader);
    for (json::Member const& member : payload)
        read_key_of_update(member, update.machine, reader);
    read_ram(payload, update.machine, reader);
    follow_memory(before, payload, update.machine);
    fill_in(update.machine);
    update.notices = reader.take_notices();
    couple(update.machine, update.notices);
    check_whole(update.machine, before, reader);
    update.ignored = reader.take_ignored();
    if (!faults.is_empty()) return std::unexpected(std::move(faults));
    update.changes = differences(before, update.machine);
    auto const changes = [&update](std::string_view property) {
        return std::ranges::find(update.changes, property, &Change::property) != update.changes.end();
    };
    if (changes("filesystems")) note_filesystems(update.machine, update.notices);
    if (changes("max_physical_memory")) note_unlimited(update.machine, update.notices);
    return update;
}

namespace {

void add_member(json::Object& object, std::string_view key, json::Node node) {
    if (!find(object, key)) object.push_back({std::string(key), std::move(node)});
}

json::Node text_node(std::string_view text) { return json::Node{std::string(text)}; }

/// The keys that a verb names. Other values are reported when the update is read.
std::vector<std::string> keys_of_verb(Verb const& verb, json::Node const& node) {
    if (verb.what == Verb::What::remove) {
        Faults unused;
        Reader reader(unused);
        return keys_of("", node, reader).value_or(std::vector<std::string>());
    }
    std::vector<std::string> keys;
    auto const* const array = verb.what == Verb::What::update ? node.get<json::Array>() : nullptr;
    for (std::size_t i = 0; array && i < array->size(); ++i)
        if (auto const* const key = key_of((*array)[i], verb.property->rules.key)) keys.push_back(*key);
    return keys;
}

/// A minimal valid object of a list, or value of a key. Nothing: none can exist.
std::optional<json::Node> stand_in_for(Property const& property, std::string const& key) {
    if (property.name == "nics") {
        if (!canonical_mac(key)) return std::nullopt;
        return json::Node{
            json::Object{{"mac", text_node(key)}, {"nic_tag", text_node(stand_in_tag)}, {"ips", text_node("dhcp")}}};
    }
    if (property.name == "filesystems")
        return json::Node{
            json::Object{{"type", text_node("lofs")}, {"source", text_node("/")}, {"target", text_node(key)}}};
    if (property.name != "routes") return text_node("");
    auto const destination = parse_address(key);
    if (!destination || destination->family != Family::v4) return std::nullopt;
    return text_node("192.0.2.1");
}

}  // namespace

json::Object stand_in(json::Object const& update) {
    json::Object payload;
    for (json::Member const& member : update) {
        auto const verb = find_verb(member.key);
        if (!verb) continue;
        bool const is_list = verb->property->rules.parts == Parts::objects;
        add_member(payload, verb->property->name, is_list ? json::Node{json::Array{}} : json::Node{json::Object{}});
        json::Node& all = find(payload, verb->property->name)->node;
        for (std::string const& key : keys_of_verb(*verb, member.node)) {
            auto node = stand_in_for(*verb->property, key);
            if (!node) continue;
            if (!is_list)
                add_member(std::get<json::Object>(all.value), key, *std::move(node));
            else if (!find_object(std::get<json::Array>(all.value), verb->property->rules.key, key))
                std::get<json::Array>(all.value).push_back(*std::move(node));
        }
    }
    return payload;
}

std::vector<std::string> Update::at_start() const {
    std::vector<std::string> names;
    for (Change const& change : changes) {
        Property const* const property = find_property(change.property);
        // only a start decides which program is PID 1
        bool const is_other_init = change.property == "launch" && (change.before.empty() || change.after.empty());
        if (is_other_init || (property && property->rules.takes == Takes::at_start)) names.push_back(change.property);
    }
    return names;
}

}  // namespace triton::machine
