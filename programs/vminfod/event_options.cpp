#include "programs/vminfod/event_options.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "host/machine/properties.h"
#include "host/machine/uuid.h"
#include "lib/json/text.h"

namespace triton::program {

namespace {

using info::EventType;

constexpr std::size_t most_names = 1000;  // in the lists of one request

std::optional<std::uint64_t> number_of(std::string_view text) {
    std::uint64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

/// Calls `take` for each name of a list with commas. Errors: those of `take`, and too many names.
template <class Take>
Result<> each_name(Parameter const& parameter, std::size_t known, Take const& take) {
    std::string_view rest = parameter.value;
    while (!rest.empty()) {
        std::string_view const name = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
        if (++known > most_names) return fail("parameter " + json::quoted(parameter.key) + " has too many names");
        TRY(take(name));
    }
    return {};
}

Result<> add_machine(std::vector<std::string>& machines, std::string_view name) {
    machines.push_back(TRY(machine::parse_uuid(name)).text());
    return {};
}

Result<> add_type(std::vector<EventType>& types, std::string_view name) {
    for (EventType const type : {EventType::create, EventType::modify, EventType::remove}) {
        if (info::name_of(type) != name) continue;
        types.push_back(type);
        return {};
    }
    return fail("parameter \"type\" is create, modify or delete");
}

Result<> take(info::Reader::Options& options, Parameter const& parameter) {
    if (parameter.key == "vm")
        return each_name(parameter, options.machines.size(),
                         [&](auto name) { return add_machine(options.machines, name); });
    if (parameter.key == "type")
        return each_name(parameter, options.types.size(), [&](auto name) { return add_type(options.types, name); });
    if (parameter.key == "field")
        return each_name(parameter, options.fields.size(), [&](auto name) -> Result<> {
            if (!machine::find_property(name))
                return fail("parameter \"field\": " + json::quoted(name) + " is not a property");
            options.fields.emplace_back(name);
            return {};
        });
    if (parameter.key != "since") return {};
    options.since = number_of(parameter.value);
    if (!options.since) return fail("parameter \"since\" is a number");
    return {};
}

}  // namespace

Result<info::Reader::Options> parse_event_options(std::vector<Parameter> const& parameters,
                                                  std::string_view last_event_id) {
    TRY(check_keys(parameters, {"since", "snapshot", "vm", "type", "field"}));
    info::Reader::Options options;
    options.snapshot = TRY(flag_of(parameters, "snapshot"));
    for (Parameter const& parameter : parameters)
        TRY(take(options, parameter));
    // An ID that cannot be read is not one of ours and is ignored: a browser that got an error would not come back.
    if (auto const seen = number_of(last_event_id)) options.since = seen;
    return options;
}

}  // namespace triton::program
