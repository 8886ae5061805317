#include "lib/process/capabilities.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include <sys/capability.h>
#include <sys/prctl.h>

#include "lib/base/nearest.h"
#include "lib/json/limits.h"
#include "lib/json/text.h"

namespace triton::process {

namespace {

using json::Problems;
using json::Where;

constexpr std::string_view prefix = "cap_";

std::string lower_case(std::string text) {
    // std::tolower would ask a locale.
    for (char& letter : text) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return text;
}

CapabilitySet bit(cap_value_t number) { return CapabilitySet{1} << number; }

/// Returns "CAP_NET_ADMIN" for libcap's "cap_net_admin".
std::string name_of(cap_value_t number) {
    char* const libcap_name = ::cap_to_name(number);
    std::string name = libcap_name ? libcap_name : std::to_string(number);
    if (libcap_name) ::cap_free(libcap_name);
    for (char& letter : name) {
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    }
    return name;
}

std::string unknown_text(std::string const& name) {
    std::string text = "unknown capability " + json::quoted(name);
    std::vector<std::string> names;
    for (cap_value_t number = 0; number <= CAP_LAST_CAP; ++number)
        names.push_back(name_of(number));
    std::vector<std::string_view> const known(names.begin(), names.end());
    bool const has_prefix = lower_case(name).starts_with(prefix);
    auto const meant = nearest(has_prefix ? name : "CAP_" + name, known);
    if (meant) text.append("; did you mean ").append(*meant).append("?");
    return text;
}

CapabilitySet flag_set(cap_t all, cap_flag_t flag) {
    CapabilitySet set = 0;
    for (cap_value_t number = 0; number < cap_max_bits(); ++number) {
        cap_flag_value_t value = CAP_CLEAR;
        if (::cap_get_flag(all, number, flag, &value) == 0 && value == CAP_SET) set |= bit(number);
    }
    return set;
}

/// Calls `use` with the number of each capability in `set`.
template <class Use>
void for_each_capability(CapabilitySet set, Use use) {
    for (cap_value_t number = 0; set; ++number, set >>= 1) {
        if (set & 1) use(number);
    }
}

}  // namespace

std::optional<CapabilitySet> parse_capability(std::string const& name) {
    std::string text = lower_case(name);
    if (!text.starts_with(prefix)) text.insert(0, prefix);
    // libcap ignores what cannot be part of a name, and takes numbers, too.
    bool const is_name =
        std::ranges::all_of(text, [](char letter) { return letter == '_' || (letter >= 'a' && letter <= 'z'); });
    cap_value_t number = 0;
    if (!is_name || ::cap_from_name(text.c_str(), &number) != 0) return std::nullopt;
    return bit(number);
}

std::string capability_name(int number) { return name_of(number); }

OwnCapabilities OwnCapabilities::read() {
    OwnCapabilities own;
    for (cap_value_t number = 0; number < cap_max_bits(); ++number) {
        if (::prctl(PR_CAPBSET_READ, number) == 1) own.bounding |= bit(number);
        if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, number, 0, 0) == 1) own.ambient |= bit(number);
    }
    if (cap_t const all = ::cap_get_proc()) {
        own.permitted = flag_set(all, CAP_PERMITTED);
        own.inheritable = flag_set(all, CAP_INHERITABLE);
        ::cap_free(all);
    }
    return own;
}

std::expected<CapabilityMasks, Problems> resolve_capabilities(CapabilitySettings const& wanted, Where const& at,
                                                              OwnCapabilities const* own) {
    json::ProblemList problems{
        json::Limits{}.problems};  // whoever writes the document controls how many names there are
    auto const parse = [&](std::optional<std::vector<std::string>> const& names, std::string_view key,
                           std::optional<CapabilitySet> within, bool is_from_us) {
        CapabilitySet set = 0;
        if (!names) return set;
        Where const list{&at, key};
        for (std::size_t i = 0; i < names->size(); ++i) {
            auto const capability = parse_capability((*names)[i]);
            auto const refuse = [&](std::string reason) { problems.add(Where{&list, i}, std::move(reason)); };
            if (!capability) {
                refuse(problems.has_room() ? unknown_text((*names)[i]) : "");
                continue;
            }
            set |= *capability;
            auto const name = [&] { return name_of(std::countr_zero(*capability)); };
            if (within && !(*capability & *within)) {
                refuse(name() + " is not in bounding");
            } else if (is_from_us && own && !(*capability & own->permitted & own->bounding)) {
                refuse("the launcher itself does not have " + name());
            }
        }
        return set;
    };
    // A bounding set only limits: it may name capabilities that we do not have ourselves.
    CapabilitySet const listed = parse(wanted.bounding, "bounding", std::nullopt, false);
    std::optional<CapabilitySet> const within = wanted.bounding ? std::optional(listed) : std::nullopt;
    CapabilitySet const ambient = parse(wanted.ambient, "ambient", within, true);
    CapabilitySet const inheritable = parse(wanted.inheritable, "inheritable", within, true);
    if (!problems.empty()) return std::unexpected(std::move(problems).take());

    CapabilityMasks masks;
    if (!own) return masks;
    CapabilitySet const bounding = within.value_or(own->bounding);
    masks.drop = own->bounding & ~bounding;
    // A set that is not mentioned stays, but within the bounding set: root gets all that is inheritable, too.
    masks.ambient = (wanted.ambient ? ambient : own->ambient) & bounding;
    masks.inheritable = ((wanted.inheritable ? inheritable : own->inheritable) & bounding) | masks.ambient;
    return masks;
}

}  // namespace triton::process
