#include "host/volume/keys.h"

#include <algorithm>
#include <charconv>

namespace triton::volume {

namespace {

constexpr std::size_t uuid_length = 36;
constexpr std::size_t longest_name = 128;
constexpr std::size_t longest_snapshot_name = 64;  // those of a pool have 80, with a prefix

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

/// A number as std::to_string() writes it: "007" would be a second name of the same volume.
std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || std::to_string(number) != text) return std::nullopt;
    return number;
}

}  // namespace

std::string VolumeKey::text() const { return id.text() + "#" + std::to_string(generation); }

std::optional<VolumeKey> VolumeKey::parse(std::string_view text) {
    if (text.size() < uuid_length + 2 || text[uuid_length] != '#') return std::nullopt;
    auto const id = Uuid::parse(text.substr(0, uuid_length));
    auto const generation = parse_number(text.substr(uuid_length + 1));
    if (!id || !generation || id->text() != text.substr(0, uuid_length)) return std::nullopt;
    return VolumeKey{*id, *generation};
}

std::string ReferenceKey::text() const { return volume.text() + "#" + user; }

std::optional<ReferenceKey> ReferenceKey::parse(std::string_view text) {
    std::size_t const end = text.find('#', std::min(text.size(), uuid_length + 1));
    if (end == std::string_view::npos) return std::nullopt;
    auto const key = VolumeKey::parse(text.substr(0, end));
    std::string_view const user = text.substr(end + 1);
    if (!key || !is_content_id(user)) return std::nullopt;
    return ReferenceKey{*key, std::string(user)};
}

std::optional<HolderKey> HolderKey::parse(std::string_view text) {
    auto const id = Uuid::parse(text);
    if (!id) return std::nullopt;
    return HolderKey{*id};
}

std::optional<SnapshotKey> SnapshotKey::parse(std::string_view text) {
    if (!is_content_id(text) || text.size() > longest_snapshot_name) return std::nullopt;
    return SnapshotKey{std::string(text)};
}

bool is_content_id(std::string_view text) {
    return !text.empty() && text.size() <= longest_name && text.front() != '.' &&
           std::ranges::all_of(text, is_name_character);
}

}  // namespace triton::volume
