#include "host/verify/imgapi_document.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "host/role/message.h"
#include "lib/base/uuid.h"
#include "lib/json/table.h"
#include "lib/json/text.h"
#include "lib/json/values.h"

namespace triton::verify {

namespace {

using json::as;
using json::Need;

constexpr std::size_t most_listing_problems = 10;
constexpr std::size_t most_files = 8;
constexpr std::size_t most_manifests = 20'000;
constexpr std::int64_t largest_file = std::int64_t{1} << 42;
constexpr std::array<std::string_view, 5> compressions{"none", "gzip", "bzip2", "xz", "zstd"};

std::optional<std::string> read_uuid(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (triton::Uuid::parse(*text)) return *text;
    reading.problems.add(at, json::quoted(*text) + " is not a UUID");
    return std::nullopt;
}
constexpr json::Shape uuid_shape{.types = "string"};
using UuidText = json::Kind<read_uuid, uuid_shape>;

template <std::size_t longest>
struct Bounded {
    static constexpr json::Shape shape{.types = "string", .longest = longest};
    static std::optional<std::string> read(json::Node const& node, json::Where const& at, json::Reading& reading) {
        std::string const* const text = json::expect_string(node, at, reading);
        if (!text) return std::nullopt;
        if (text->size() <= longest) return *text;
        reading.problems.add(at, "is longer than " + std::to_string(longest) + " bytes");
        return std::nullopt;
    }
};

struct File {
    std::optional<std::string> sha1;
    std::optional<role::Digest> digest;
    std::uint64_t size = 0;
    std::size_t compression = 0;
};
std::optional<std::size_t> read_compression(json::Node const& node, json::Where const& at, json::Reading& reading) {
    return json::read_choice_index(node, at, compressions, reading);
}
constexpr json::Shape compression_shape{.types = "string", .choices = compressions};

std::span<json::Field<File> const> table(json::TableOf<File>) {
    static constexpr std::array<json::Field<File>, 4> rows{{
        {.name = "sha1", .value = as<&File::sha1, role::Sha1Text>},
        {.name = "digest", .value = as<&File::digest, role::DigestText>},
        {.name = "size",
         .need = Need::required,
         .value = as<&File::size, json::Integer<std::uint64_t, 0, largest_file>>},
        {.name = "compression",
         .need = Need::required,
         .value = as<&File::compression, json::Kind<read_compression, compression_shape>>},
    }};
    return rows;
}
constexpr json::Shape object{.types = "object"};

struct Manifest {
    std::uint32_t v = 0;
    std::string uuid;
    std::string name;
    std::string version;
    std::string type;
    std::string os;
    std::optional<std::string> origin;
    std::optional<std::string> state;
    std::optional<std::vector<File>> files;
};
std::span<json::Field<Manifest> const> table(json::TableOf<Manifest>) {
    static constexpr std::array<json::Field<Manifest>, 9> rows{{
        {.name = "v", .need = Need::required, .value = as<&Manifest::v, json::Integer<std::uint32_t, 2, 2>>},
        {.name = "uuid", .need = Need::required, .value = as<&Manifest::uuid, UuidText>},
        {.name = "name", .need = Need::required, .value = as<&Manifest::name, Bounded<512>>},
        {.name = "version", .need = Need::required, .value = as<&Manifest::version, Bounded<128>>},
        {.name = "type", .need = Need::required, .value = as<&Manifest::type, Bounded<128>>},
        {.name = "os", .need = Need::required, .value = as<&Manifest::os, Bounded<128>>},
        {.name = "origin", .value = as<&Manifest::origin, UuidText>},
        {.name = "state", .value = as<&Manifest::state, Bounded<128>>},
        {.name = "files", .value = as<&Manifest::files, json::List<json::Record<File, object>>>},
    }};
    return rows;
}

std::unexpected<Error> wrong(std::string reason, json::Reading&& reading) {
    Error error{ErrorKind::corrupt, "", std::move(reason), {}};
    for (json::Problem const& problem : std::move(reading.problems).take())
        error.details.push_back(problem.text());
    return std::unexpected(std::move(error));
}

void check_one(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const manifest = json::read_object<Manifest>(node, at, reading);
    if (manifest && manifest->files && manifest->files->size() > most_files)
        reading.problems.add(json::Where{&at, "files"}, "has more than " + std::to_string(most_files) + " elements");
}

}  // namespace

Result<std::string> check_imgapi_manifest(json::Node const& node) {
    json::Reading reading(most_listing_problems);
    check_one(node, {}, reading);
    if (!reading.problems.empty()) return wrong("document is not a manifest of IMGAPI", std::move(reading));
    return std::string();
}

Result<std::string> check_imgapi_list(json::Node const& node) {
    json::Reading reading(most_listing_problems);
    auto const* const list = json::expect<json::Array>("an array", node, {}, reading);
    if (list && list->size() > most_manifests)
        reading.problems.add(json::Where{}, "has more than " + std::to_string(most_manifests) + " elements");
    if (!reading.problems.empty()) return wrong("document is not a list of manifests of IMGAPI", std::move(reading));
    return std::string();
}

}  // namespace triton::verify
