#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/machine/uuid.h"
#include "lib/json/table.h"
#include "lib/json/values.h"

namespace triton::machine {

/// Kinds of values of machines. A number or a boolean may also be a text, because `vmadm update UUID key=value` has
/// only texts.

std::optional<bool> read_flag(json::Node const& node, json::Where const& at, json::Reading& reading);
inline constexpr json::Shape flag_shape{.types = "boolean"};
using Flag = json::Kind<read_flag, flag_shape>;

std::optional<std::int64_t> read_whole(json::Node const& node, json::Where const& at, std::int64_t lowest,
                                       std::int64_t highest, json::Reading& reading);
template <std::int64_t lowest, std::int64_t highest>
struct Whole {
    static constexpr json::Shape shape{.types = "integer", .lowest = lowest, .highest = highest};
    static std::optional<std::int64_t> read(json::Node const& node, json::Where const& at, json::Reading& reading) {
        return read_whole(node, at, lowest, highest, reading);
    }
};

/// Reads a number of units of `unit` bytes, or a size with a unit of its own as people type it: "512M", "1.5GiB". Those
/// units are powers of 1024.
std::optional<std::int64_t> read_units(json::Node const& node, json::Where const& at, std::int64_t unit,
                                       std::int64_t highest, json::Reading& reading);
template <std::int64_t unit>
struct SizeIn {
    static constexpr std::int64_t highest = std::int64_t{1} << 30;
    static constexpr json::Shape shape{.types = "integer", .lowest = 0, .highest = highest};
    static std::optional<std::int64_t> read(json::Node const& node, json::Where const& at, json::Reading& reading) {
        return read_units(node, at, unit, highest, reading);
    }
};
using Mebibytes = SizeIn<std::int64_t{1} << 20>;
using Gibibytes = SizeIn<std::int64_t{1} << 30>;

/// The bytes of "512M", "1.5GiB", "2T"; nullopt: it is no size, has no unit, or is not a whole number of bytes.
std::optional<std::int64_t> bytes_of(std::string_view text);

/// Reads a text of one line without control characters: it goes into tables and unit files.
std::optional<std::string> read_line(json::Node const& node, json::Where const& at, std::size_t longest,
                                     json::Reading& reading);
template <std::size_t longest_line>
struct Line {
    static constexpr json::Shape shape{.types = "string", .shortest = 1, .longest = longest_line};
    static std::optional<std::string> read(json::Node const& node, json::Where const& at, json::Reading& reading) {
        return read_line(node, at, longest_line, reading);
    }
};

std::optional<Uuid> read_uuid(json::Node const& node, json::Where const& at, json::Reading& reading);
inline constexpr json::Shape uuid_shape{
    .types = "string", .pattern = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"};
using UuidText = json::Kind<read_uuid, uuid_shape>;

/// Reads a name that a host may have. Source: hostname(7); Linux: at most 64 characters.
std::optional<std::string> read_host_name(json::Node const& node, json::Where const& at, json::Reading& reading);
inline constexpr json::Shape host_name_shape{
    .types = "string", .longest = 64, .pattern = "^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$"};
using HostName = json::Kind<read_host_name, host_name_shape>;

/// Reads an absolute path of one line, without "..".
std::optional<std::string> read_path(json::Node const& node, json::Where const& at, json::Reading& reading);
inline constexpr json::Shape path_shape{.types = "string", .longest = 4095, .pattern = "^/"};
using PlainPath = json::Kind<read_path, path_shape>;

/// Reads an array of texts, or one text with commas between its parts.
std::optional<std::vector<std::string>> read_list(json::Node const& node, json::Where const& at,
                                                  json::Reading& reading);
inline constexpr json::Shape list_shape{.types = "string or array", .elements = &json::some_text};
using TextList = json::Kind<read_list, list_shape>;

/// Reads an object whose values are texts, numbers and booleans.
std::optional<json::Object> read_flat(json::Node const& node, json::Where const& at, json::Reading& reading);
inline constexpr json::Shape flat_shape{.types = "object"};
using Flat = json::Kind<read_flat, flat_shape>;

/// Reads an object that others interpret.
std::optional<json::Object> read_any_object(json::Node const& node, json::Where const& at, json::Reading& reading);
using AnyObject = json::Kind<read_any_object, flat_shape>;

/// Reads "on", "off", "gzip", "gzip-1" to "gzip-9", "lz4", "lzjb" or "zle". Source: zfs(8), SmartOS.
std::optional<std::string> read_compression(json::Node const& node, json::Where const& at, json::Reading& reading);
inline constexpr json::Shape compression_shape{.types = "string", .pattern = "^(on|off|gzip(-[1-9])?|lz4|lzjb|zle)$"};
using CompressionName = json::Kind<read_compression, compression_shape>;

/// Reads a power of two from 512 to 131072.
std::optional<std::int64_t> read_record_size(json::Node const& node, json::Where const& at, json::Reading& reading);
inline constexpr json::Shape record_size_shape{.types = "integer", .lowest = 512, .highest = 131072};
using RecordSize = json::Kind<read_record_size, record_size_shape>;

/// Reads a hardware address; single digits get a leading zero, and letters become lower case.
std::optional<std::string> read_mac(json::Node const& node, json::Where const& at, json::Reading& reading);
inline constexpr json::Shape mac_shape{.types = "string", .pattern = "^([0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}$"};
using Mac = json::Kind<read_mac, mac_shape>;

/// Turns "2:8:20:A:b:c" into "02:08:20:0a:0b:0c"; nullopt when it is not a hardware address.
std::optional<std::string> canonical_mac(std::string_view text);

/// The integer in a text; nullopt when it is not an integer of 64 bits.
std::optional<std::int64_t> integer_of(std::string_view text);

/// Returns "2026-11-22T15:04:05.678Z" for microseconds since 1970.
std::string time_text(std::int64_t microseconds);
/// Reads such a text; nullopt for any other, and for a time that does not exist.
std::optional<std::int64_t> parse_time(std::string_view text);

}  // namespace triton::machine
