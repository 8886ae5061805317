#include "host/image/manifest.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "host/image/reference.h"
#include "lib/base/digits.h"
#include "lib/json/schema.h"
#include "lib/json/table.h"
#include "lib/json/values.h"
#include "lib/json/writer.h"

namespace triton::image {

namespace {

using json::as;
using json::Need;

constexpr std::array<std::string_view, 5> state_names{"active", "unactivated", "disabled", "creating", "failed"};
constexpr std::array<std::string_view, 6> type_names{"zone-dataset", "lx-dataset", "zvol", "docker", "lxd", "other"};
constexpr std::array<std::string_view, 5> compression_names{"none", "gzip", "bzip2", "xz", "zstd"};
static_assert(state_names.size() == static_cast<std::size_t>(ImageState::failed) + 1);
static_assert(type_names.size() == static_cast<std::size_t>(ImageType::other) + 1);
static_assert(compression_names.size() == static_cast<std::size_t>(Compression::zstd) + 1);

constexpr std::int64_t version_of_manifests = 2;
constexpr std::size_t longest_name = 512;
constexpr std::size_t longest_version = 128;
constexpr std::size_t longest_text = 4096;
constexpr std::int64_t largest_image_file = std::int64_t{1} << 42;
constexpr std::size_t most_files = 8;
constexpr std::size_t most_in_acl = 1000;

/// Four megabytes are more than any registry or IMGAPI accepts.
constexpr json::Limits limits{.document_bytes = 4 << 20, .depth = 32, .values = 1 << 16, .problems = 20};

struct Reading : json::Reading {
    explicit Reading(ManifestUse manifest_use) : json::Reading(limits.problems), use(manifest_use) {}
    ManifestUse use;
};

constexpr json::NeededWhen<Reading> to_install{
    [](Reading const& reading) { return reading.use == ManifestUse::install; }, "required to install"};

// Kinds of values that only manifests have.

constexpr json::Shape uuid_text{.types = "string", .pattern = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"};
std::optional<Uuid> read_uuid(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    auto uuid = Uuid::parse(*text);
    if (!uuid) reading.problems.add(at, json::quoted(*text) + " is not a UUID");
    return uuid;
}
using UuidText = json::Kind<read_uuid, uuid_text>;

template <std::size_t longest, std::size_t shortest = 0>
struct Bounded {
    static constexpr json::Shape shape{
        .types = "string", .shortest = shortest, .longest = longest, .pattern = R"(^[^\u0000]*$)"};
    static std::optional<std::string> read(json::Node const& node, json::Where const& at, json::Reading& reading) {
        std::string const* const text = json::expect_string(node, at, reading);
        if (!text) return std::nullopt;
        if (text->size() < shortest) return reading.problems.add(at, "must not be empty"), std::nullopt;
        if (text->size() <= longest) return *text;
        reading.problems.add(at, "is longer than " + std::to_string(longest) + " bytes");
        return std::nullopt;
    }
};

template <std::size_t length>
struct Hex {
    static constexpr json::Shape shape{
        .types = "string", .shortest = length, .longest = length, .pattern = "^[0-9a-f]*$"};
    static std::optional<std::string> read(json::Node const& node, json::Where const& at, json::Reading& reading) {
        std::string const* const text = json::expect_string(node, at, reading);
        if (!text) return std::nullopt;
        bool const is_hex = text->size() == length &&
                            std::ranges::all_of(*text, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
        if (is_hex) return *text;
        reading.problems.add(
            at, "expected " + std::to_string(length) + " lower-case hexadecimal digits, found " + json::quoted(*text));
        return std::nullopt;
    }
};

constexpr json::Shape digest_text{.types = "string", .pattern = "^sha256:[0-9a-f]{64}$"};
std::optional<std::string> read_digest(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (is_sha256_digest(*text)) return *text;
    reading.problems.add(at, json::quoted(*text) + " is not sha256: and 64 lower-case hexadecimal digits");
    return std::nullopt;
}
using DigestText = json::Kind<read_digest, digest_text>;

/// The name of a file in a directory that others fill.
constexpr json::Shape file_name{
    .types = "string", .shortest = 1, .longest = 255, .pattern = "^[A-Za-z0-9_][A-Za-z0-9._+~-]*$"};
std::optional<std::string> read_file_name(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (is_file_name(*text)) return *text;
    reading.problems.add(at, json::quoted(*text) + " is not the name of a file");
    return std::nullopt;
}
using FileName = json::Kind<read_file_name, file_name>;

/// A value that only other programs understand: only its type is checked, and it stays in the document.
template <class T, json::Shape const& of>
struct Kept {
    template <class Object, class Context>
    static void parse(json::Node const& node, json::Where const& at, Object& /*object*/, Context& context) {
        (void)json::expect<T>(of.types == "array"    ? "an array"
                              : of.types == "object" ? "an object"
                                                     : "a string",
                              node, at, context);
    }
    template <class Object, class Context>
    constexpr operator json::Value<Object, Context>() const {  // NOLINT(google-explicit-constructor): a row's value
        return {&of, parse<Object, Context>};
    }
};
constexpr json::Shape any_object{.types = "object"};
constexpr json::Shape any_array{.types = "array"};
constexpr json::Shape any_string{.types = "string"};
using KeptObject = Kept<json::Object, any_object>;
using KeptArray = Kept<json::Array, any_array>;
using KeptText = Kept<std::string, any_string>;

struct KeptBoolean {
    template <class Object, class Context>
    static void parse(json::Node const& node, json::Where const& at, Object& /*object*/, Context& context) {
        (void)json::read_boolean(node, at, context);
    }
    template <class Object, class Context>
    constexpr operator json::Value<Object, Context>() const {  // NOLINT(google-explicit-constructor): a row's value
        return {&json::boolean, parse<Object, Context>};
    }
};

std::span<json::Field<ImageFile, Reading> const> table(json::TableOf<ImageFile, Reading>) {
    static constexpr std::array<json::Field<ImageFile, Reading>, 8> rows{{
        {.name = "size",
         .need = Need::required,
         .value = as<&ImageFile::size, json::Integer<std::uint64_t, 0, largest_image_file>>,
         .description = "Its bytes, as they are downloaded."},
        {.name = "sha256",
         .value = as<&ImageFile::sha256, Hex<64>>,
         .description = "Its SHA-256. Without one `sha1` is taken, with a warning."},
        {.name = "sha1", .value = as<&ImageFile::sha1, Hex<40>>, .description = "Its SHA-1, in old manifests."},
        {.name = "compression",
         .value = as<&ImageFile::compression, json::Choice<Compression, compression_names>>,
         .description = "What it is compressed with. Default: `none`."},
        {.name = "dataset_guid",
         .value = as<&ImageFile::dataset_guid, Bounded<64>>,
         .description = "The GUID of the snapshot in a ZFS stream."},
        {.name = "digest",
         .value = as<&ImageFile::uncompressed_digest, DigestText>,
         .description = "The SHA-256 of what it decompresses to."},
        {.name = "path",
         .value = as<&ImageFile::path, FileName>,
         .description = "Its name, in the directory of a source of type `directory`."},
        {.name = "uncompressedDigest", .value = KeptText{}, .description = "The same, in manifests of Docker images."},
    }};
    return rows;
}

void parse_old_platform(json::Node const& node, json::Where const& at, Requirements& requirements, Reading& reading) {
    auto const* const versions = json::expect<json::Object>("an object", node, at, reading);
    if (versions && !versions->empty()) requirements.has_platform = true;
}
constexpr json::Value<Requirements, Reading> platform_range{&any_object, parse_old_platform};

std::span<json::Field<Requirements, Reading> const> table(json::TableOf<Requirements, Reading>) {
    static constexpr json::Shape ram{.types = "integer", .lowest = 0};
    static constexpr json::Value<Requirements, Reading> number{
        &ram, [](json::Node const& node, json::Where const& at, Requirements&, Reading& reading) {
            (void)json::read_integer_within(node, at, 0, INT64_MAX, reading);
        }};
    static constexpr std::array<json::Field<Requirements, Reading>, 8> rows{{
        {.name = "brand", .value = as<&Requirements::brand, Bounded<64>>, .description = "The brand of its machines."},
        {.name = "networks", .value = KeptArray{}, .description = "The networks that a machine must have."},
        {.name = "ssh_key", .value = KeptBoolean{}, .description = "Whether a machine needs an SSH key."},
        {.name = "min_ram", .value = number, .description = "The least memory of a machine, in MiB."},
        {.name = "max_ram", .value = number, .description = "The most memory of a machine, in MiB."},
        {.name = "min_platform",
         .value = platform_range,
         .description = "The oldest SmartOS platform. An image with one is refused on Linux."},
        {.name = "max_platform",
         .value = platform_range,
         .description = "The newest SmartOS platform. An image with one is refused on Linux."},
        {.name = "bootrom", .value = KeptText{}, .description = "The firmware of a virtual machine."},
    }};
    return rows;
}

constexpr json::Shape file_shape = json::object_shape("File");
constexpr json::Shape requirements_shape = json::object_shape("Requirements");

struct Files {
    static constexpr json::Shape shape = json::List<json::Record<ImageFile, file_shape>>::shape;
    static std::optional<std::vector<ImageFile>> read(json::Node const& node, json::Where const& at, Reading& reading) {
        auto files = json::List<json::Record<ImageFile, file_shape>>::read(node, at, reading);
        if (!files || files->size() <= most_files) return files;
        reading.problems.add(at, "has more than " + std::to_string(most_files) + " files");
        return std::nullopt;
    }
};

struct Acl {
    static constexpr json::Shape shape = json::List<Bounded<64>>::shape;
    static std::optional<std::vector<std::string>> read(json::Node const& node, json::Where const& at,
                                                        Reading& reading) {
        auto all = json::List<Bounded<64>>::read(node, at, reading);
        if (!all || all->size() <= most_in_acl) return all;
        reading.problems.add(at, "has more than " + std::to_string(most_in_acl) + " entries");
        return std::nullopt;
    }
};

void parse_version(json::Node const& node, json::Where const& at, Manifest& /*manifest*/, Reading& reading) {
    std::int64_t const* const version = json::expect_integer(node, at, reading);
    if (version && *version != version_of_manifests)
        reading.problems.add(at, "manifests of version " + std::to_string(*version) + " are not known; 2 is");
}
constexpr json::Shape manifest_version{.types = "integer", .lowest = 2, .highest = 2};

std::span<json::Field<Manifest, Reading> const> table(json::TableOf<Manifest, Reading>) {
    static constexpr std::array<json::Field<Manifest, Reading>, 35> rows{{
        {.name = "v",
         .needed_when = to_install,
         .value = {&manifest_version, parse_version},
         .description = "The version of the manifest's format."},
        {.name = "uuid",
         .needed_when = to_install,
         .value = as<&Manifest::uuid, UuidText>,
         .description = "What the image is known by everywhere."},
        {.name = "owner", .value = as<&Manifest::owner, UuidText>, .description = "The account that it belongs to."},
        {.name = "name",
         .needed_when = to_install,
         .value = as<&Manifest::name, Bounded<longest_name, 1>>,
         .description = "Its name."},
        {.name = "version",
         .needed_when = to_install,
         .value = as<&Manifest::version, Bounded<longest_version, 1>>,
         .description = "Its version."},
        {.name = "description",
         .value = as<&Manifest::description, Bounded<longest_text>>,
         .description = "A sentence about it."},
        {.name = "homepage", .value = KeptText{}, .description = "Where more is written about it."},
        {.name = "eula", .value = KeptText{}, .description = "Where its licence is."},
        {.name = "icon", .value = KeptBoolean{}, .description = "Whether its server has an icon of it."},
        {.name = "state",
         .value = as<&Manifest::state, json::Choice<ImageState, state_names>>,
         .description = "Only an `active` image can be installed. Default: `active`."},
        {.name = "error", .value = KeptObject{}, .description = "What went wrong while its server made it."},
        {.name = "disabled",
         .value = as<&Manifest::is_disabled, json::Boolean>,
         .description = "Whether its server gives it to nobody at the moment."},
        {.name = "public", .value = as<&Manifest::is_public, json::Boolean>, .description = "Whether all may use it."},
        {.name = "published_at",
         .value = as<&Manifest::published_at, Bounded<64>>,
         .description = "When it was published, as in RFC 3339."},
        {.name = "type",
         .needed_when = to_install,
         .value = as<&Manifest::type, json::Choice<ImageType, type_names>>,
         .description = "What it is. A `zvol` is a disk, which no container can start from, and is refused."},
        {.name = "os",
         .needed_when = to_install,
         .value = as<&Manifest::os, Bounded<64, 1>>,
         .description = "Its operating system: `linux`, or `other`."},
        {.name = "origin",
         .value = as<&Manifest::origin, UuidText>,
         .description = "The image that this one is an increment of."},
        {.name = "files", .value = as<&Manifest::files, Files>, .description = "The file with its content."},
        {.name = "acl", .value = as<&Manifest::acl, Acl>, .description = "The accounts that may use it."},
        {.name = "requirements",
         .value = as<&Manifest::requirements, json::Record<Requirements, requirements_shape>>,
         .description = "What a machine of it must have."},
        {.name = "users", .value = KeptArray{}, .description = "The users that are in it."},
        {.name = "generate_passwords",
         .value = KeptBoolean{},
         .description = "Whether its users get passwords when a machine is made."},
        {.name = "inherited_directories", .value = KeptArray{}, .description = "Of SmartOS."},
        {.name = "nic_driver", .value = KeptText{}, .description = "Of virtual machines."},
        {.name = "disk_driver", .value = KeptText{}, .description = "Of virtual machines."},
        {.name = "cpu_type", .value = KeptText{}, .description = "Of virtual machines."},
        {.name = "image_size",
         .value = as<&Manifest::image_size, json::Integer<std::uint64_t, 0, INT64_MAX>>,
         .description = "The size of a disk, in MiB."},
        {.name = "billing_tags", .value = KeptArray{}, .description = "Of who sells machines."},
        {.name = "traits", .value = KeptObject{}, .description = "What a server must have to run it."},
        {.name = "tags", .value = KeptObject{}, .description = "Free keys with values."},
        {.name = "channels", .value = KeptArray{}, .description = "The channels of its server that it is in."},
        {.name = "urn", .value = KeptText{}, .description = "Its name before there were UUIDs."},
        {.name = "creator_name", .value = KeptText{}, .description = "Who made it, in old manifests."},
        {.name = "creator_uuid", .value = KeptText{}, .description = "The same."},
        {.name = "oci",
         .value = KeptObject{},
         .description = "What the image of a registry says of itself: digest, platform, command, environment."},
    }};
    return rows;
}

std::vector<std::string> texts_of(json::ProblemList list) {
    std::vector<std::string> texts;
    for (json::Problem const& problem : std::move(list).take())
        texts.push_back(problem.text());
    return texts;
}

json::Node text_node(std::string_view text) { return {std::string(text)}; }

void put(json::Object& object, std::string_view key, json::Node node) {
    auto const old = std::ranges::find(object, key, &json::Member::key);
    if (old != object.end())
        old->node = std::move(node);
    else
        object.push_back({std::string(key), std::move(node)});
}

json::Node node_of(ImageFile const& file) {
    json::Object object;
    put(object, "size", {static_cast<std::int64_t>(file.size)});
    if (!file.sha256.empty()) put(object, "sha256", text_node(file.sha256));
    if (!file.sha1.empty()) put(object, "sha1", text_node(file.sha1));
    put(object, "compression", text_node(name_of(file.compression)));
    if (!file.dataset_guid.empty()) put(object, "dataset_guid", text_node(file.dataset_guid));
    if (!file.path.empty()) put(object, "path", text_node(file.path));
    if (!file.uncompressed_digest.empty()) put(object, "digest", text_node(file.uncompressed_digest));
    return {std::move(object)};
}

constexpr std::string_view nobody = "00000000-0000-0000-0000-000000000000";

}  // namespace

std::string_view name_of(ImageState state) { return state_names[static_cast<std::size_t>(state)]; }
std::string_view name_of(ImageType type) { return type_names[static_cast<std::size_t>(type)]; }
std::string_view name_of(Compression compression) { return compression_names[static_cast<std::size_t>(compression)]; }

bool is_dataset(ImageType type) { return type == ImageType::zone_dataset || type == ImageType::lx_dataset; }

std::string Manifest::text() const {
    json::Writer out;
    out.value(document);
    return std::move(out).text();
}

Result<ReadManifest> read_manifest(std::string_view text, std::string_view what, ManifestUse use) {
    Reading reading(use);
    auto node = json::read_json(text, limits, reading.problems);
    std::optional<Manifest> manifest;
    if (node) manifest = json::read_object<Manifest>(*node, json::Where{}, reading);
    if (!reading.problems.empty() || !manifest) {
        return std::unexpected(Error{.kind = ErrorKind::invalid,
                                     .attempted = {},
                                     .reason = std::string(what) + " is not a manifest",
                                     .details = texts_of(std::move(reading.problems))});
    }
    manifest->document = *std::move(node);
    return ReadManifest{*std::move(manifest), texts_of(std::move(reading.warnings))};
}

Result<> check_installable(Manifest const& manifest) {
    std::string const image = "image " + manifest.uuid->text();
    if (manifest.state != ImageState::active || manifest.is_disabled) {
        return fail(ErrorKind::refused, image + " is not active: its state is " +
                                            std::string(manifest.is_disabled ? "disabled" : name_of(manifest.state)));
    }
    if (manifest.type == ImageType::zvol)
        return fail(ErrorKind::unsupported, image + " is a disk (type zvol), not a file system");
    if (manifest.os != "linux" && manifest.os != "other")
        return fail(ErrorKind::unsupported, image + " is for " + json::shown(manifest.os) + ", not for Linux");
    if (manifest.requirements.has_platform)
        return fail(ErrorKind::unsupported, image + " requires a SmartOS platform, and this is Linux");
    if (!manifest.requirements.brand.empty() && manifest.requirements.brand != "lx")
        return fail(ErrorKind::unsupported, image + " requires machines of the brand " +
                                                json::shown(manifest.requirements.brand) + ", and here all are lx");
    return {};
}

std::vector<std::string_view> manifest_keys() {
    std::vector<std::string_view> keys;
    for (auto const& row : table(json::TableOf<Manifest, Reading>{}))
        keys.push_back(row.name);
    return keys;
}

std::string manifest_reference_page() {
    std::string page =
        "# Manifest of an image\n\nA manifest is a JSON object as IMGAPI has it, version 2, with `sha256` added. "
        "`imgadm` "
        "keeps keys that it does not know and warns of them.\n";
    json::append_section(page, "Manifest", json::described_keys<Manifest, Reading>());
    json::append_section(page, "File", json::described_keys<ImageFile, Reading>());
    json::append_section(page, "Requirements", json::described_keys<Requirements, Reading>());
    return page;
}

Result<Manifest> make_manifest(NewManifest const& facts) {
    json::Object object = facts.further;
    put(object, "v", {version_of_manifests});
    put(object, "uuid", text_node(facts.uuid.text()));
    if (std::ranges::find(object, "owner", &json::Member::key) == object.end()) put(object, "owner", text_node(nobody));
    put(object, "name", text_node(facts.name));
    put(object, "version", text_node(facts.version));
    if (!facts.description.empty()) put(object, "description", text_node(facts.description));
    put(object, "state", text_node("active"));
    put(object, "disabled", {false});
    if (std::ranges::find(object, "public", &json::Member::key) == object.end()) put(object, "public", {true});
    put(object, "type", text_node(name_of(facts.type)));
    put(object, "os", text_node(facts.os));
    if (facts.origin) put(object, "origin", text_node(facts.origin->text()));
    if (!facts.published_at.empty()) put(object, "published_at", text_node(facts.published_at));
    json::Array files;
    for (ImageFile const& file : facts.files)
        files.push_back(node_of(file));
    put(object, "files", {std::move(files)});
    json::Writer out;
    out.value(object);
    return TRY(read_manifest(out.text(), "what is known of the image", ManifestUse::install)).manifest;
}

}  // namespace triton::image
