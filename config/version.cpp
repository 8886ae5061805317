#include "config/version.h"

#include <charconv>

#include "lib/base/digits.h"
#include "lib/json/text.h"

namespace triton::config {

namespace {

bool take_number(std::string_view& text, std::uint32_t& number) {
    if (text.empty() || !is_digit(text.front())) return false;  // from_chars alone would take no sign, but be clear
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

bool take(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

std::optional<Version> version_at_start(std::string_view text) {
    Version version;
    bool const found = take_number(text, version.major_number) && take(text, ".") &&
                       take_number(text, version.minor_number) && take(text, ".") && take_number(text, version.patch);
    if (!found) return std::nullopt;
    std::uint32_t candidate = 0;
    if (take(text, "-rc") && take_number(text, candidate)) version.release_candidate = candidate;
    return version;
}

std::string join(std::string path, std::string_view component) {
    if (!path.ends_with('/')) path += '/';
    return path.append(component);
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

BinaryCandidates shared_candidates(BinaryRule const& rule, std::string_view version) {
    std::string_view const name = base_name(rule.own_path);
    return {{join(join(join(rule.shared_directory, "bin"), version), name),
             join(join(rule.shared_directory, version), name)}};
}

/// A version that cannot be parsed fits only the same text.
BinaryCandidates automatic_candidates(BinaryRule const& rule, std::string_view configured_version) {
    auto const configured = Version::parse(configured_version);
    auto const container = Version::parse(rule.container_version);
    if (configured_version == rule.container_version || (configured && configured == container))
        return {{rule.own_path}};
    BinaryCandidates candidates = shared_candidates(rule, configured_version);
    if (configured && configured->text() != configured_version) {
        for (std::string& path : shared_candidates(rule, configured->text()).paths)
            candidates.paths.push_back(std::move(path));
    }
    if (configured && container && configured->protocol_compatible(*container)) {
        candidates.paths.push_back(rule.own_path);
        candidates.ends_with_stand_in = true;
    }
    return candidates;
}

std::unexpected<json::Problem> unparsable(std::string where, std::string_view version) {
    return std::unexpected(json::Problem{std::move(where), "could not parse FDB version from " + json::shown(version)});
}

}  // namespace

std::optional<Version> Version::parse(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!is_digit(text[i]) || (i > 0 && is_digit(text[i - 1]))) continue;  // not inside a number
        if (auto const version = version_at_start(text.substr(i))) return version;
    }
    return std::nullopt;
}

std::string Version::text() const {
    std::string out = std::to_string(major_number);
    out.append(".").append(std::to_string(minor_number)).append(".").append(std::to_string(patch));
    if (release_candidate) out.append("-rc").append(std::to_string(*release_candidate));
    return out;
}

bool Version::protocol_compatible(Version const& other) const {
    return major_number == other.major_number && minor_number == other.minor_number &&
           release_candidate == other.release_candidate;
}

std::expected<BinaryCandidates, json::Problem> choose_binary(BinaryRule const& rule,
                                                             std::string_view configured_version) {
    if (rule.match == VersionMatch::automatic) return automatic_candidates(rule, configured_version);
    if (rule.match == VersionMatch::exact) {
        if (configured_version == rule.container_version) return BinaryCandidates{{rule.own_path}};
        return shared_candidates(rule, configured_version);
    }
    auto const configured = Version::parse(configured_version);
    if (!configured) return unparsable("version", configured_version);
    auto const container = Version::parse(rule.container_version);
    if (!container) return unparsable("main container version", rule.container_version);
    if (configured->protocol_compatible(*container)) return BinaryCandidates{{rule.own_path}};
    return shared_candidates(rule, configured->text());
}

}  // namespace triton::config
