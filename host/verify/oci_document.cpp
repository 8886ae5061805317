#include "host/verify/oci_document.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "host/role/message.h"
#include "lib/base/digits.h"
#include "lib/json/table.h"
#include "lib/json/text.h"
#include "lib/json/values.h"

namespace triton::verify {

namespace {

using json::as;
using json::Need;

constexpr std::size_t most_oci_problems = 10;
constexpr std::size_t most_index_entries = 1024;
constexpr std::size_t most_tags = 100'000;
constexpr std::size_t longest_text = 256;
constexpr std::int64_t largest_blob = std::int64_t{1} << 40;

// Media types.

enum class What : std::uint8_t { index, manifest, config, layer, foreign_layer };
struct MediaType {
    std::string_view name;
    What what;
};
constexpr std::string_view oci_index = "application/vnd.oci.image.index.v1+json";
constexpr std::string_view oci_manifest = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view oci_config = "application/vnd.oci.image.config.v1+json";
constexpr std::array<MediaType, 17> media_types{{
    {oci_index, What::index},
    {"application/vnd.docker.distribution.manifest.list.v2+json", What::index},
    {oci_manifest, What::manifest},
    {"application/vnd.docker.distribution.manifest.v2+json", What::manifest},
    {oci_config, What::config},
    {"application/vnd.docker.container.image.v1+json", What::config},
    {"application/vnd.oci.image.layer.v1.tar", What::layer},
    {"application/vnd.oci.image.layer.v1.tar+gzip", What::layer},
    {"application/vnd.oci.image.layer.v1.tar+zstd", What::layer},
    {"application/vnd.docker.image.rootfs.diff.tar", What::layer},
    {"application/vnd.docker.image.rootfs.diff.tar.gzip", What::layer},
    {"application/vnd.docker.image.rootfs.diff.tar.zstd", What::layer},
    {"application/vnd.oci.image.layer.nondistributable.v1.tar", What::foreign_layer},
    {"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", What::foreign_layer},
    {"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", What::foreign_layer},
    {"application/vnd.docker.image.rootfs.foreign.diff.tar", What::foreign_layer},
    {"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", What::foreign_layer},
}};
std::optional<What> what_is(std::string_view media_type) {
    auto const row = std::ranges::find(media_types, media_type, &MediaType::name);
    return row == media_types.end() ? std::nullopt : std::optional(row->what);
}

bool is_config_type(std::string_view media_type) {
    return what_is(media_type) == What::config ||
           std::ranges::find(role::old_config_types, media_type) != role::old_config_types.end();
}

std::unexpected<Error> unsupported(std::string reason) { return fail(ErrorKind::unsupported, std::move(reason)); }
std::unexpected<Error> not_what_it_should_be(std::string reason, json::Reading&& reading) {
    Error error{ErrorKind::corrupt, "", std::move(reason), {}};
    for (json::Problem const& problem : std::move(reading.problems).take())
        error.details.push_back(problem.text());
    return std::unexpected(std::move(error));
}

// The parts of the documents. Unknown keys are accepted: a newer writer may know more.

std::optional<std::string> read_short(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (text->size() <= longest_text) return *text;
    reading.problems.add(at, "is longer than " + std::to_string(longest_text) + " bytes");
    return std::nullopt;
}
constexpr json::Shape short_text{.types = "string", .longest = longest_text};
using Short = json::Kind<read_short, short_text>;

struct Platform {
    std::string os;
    std::string architecture;
    std::string variant;
    std::string os_version;
};
std::span<json::Field<Platform> const> table(json::TableOf<Platform>) {
    static constexpr std::array<json::Field<Platform>, 4> rows{{
        {.name = "os", .value = as<&Platform::os, Short>},
        {.name = "architecture", .value = as<&Platform::architecture, Short>},
        {.name = "variant", .value = as<&Platform::variant, Short>},
        {.name = "os.version", .value = as<&Platform::os_version, Short>},
    }};
    return rows;
}
constexpr json::Shape oci_object{.types = "object"};

/// Reads annotations and labels, which map texts to texts.
std::optional<bool> read_texts(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const all = json::expect<json::Object>("an object", node, at, reading);
    if (!all) return std::nullopt;
    for (json::Member const& member : *all)
        (void)json::expect_string(member.node, json::Where{&at, member.key}, reading);
    return true;
}
using Texts = json::Kind<read_texts, oci_object>;

std::optional<bool> read_presence(json::Node const& /*node*/, json::Where const& /*at*/, json::Reading& /*reading*/) {
    return true;
}
using Presence = json::Kind<read_presence, json::boolean>;

/// Reads whether a list has anything in it: an empty one says the same as none.
std::optional<bool> read_any(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const all = json::expect<json::Array>("an array", node, at, reading);
    return all ? std::optional(!all->empty()) : std::nullopt;
}
using Any = json::Kind<read_any, json::boolean>;

struct Descriptor {
    std::string media_type;
    role::Digest digest;
    std::uint64_t size = 0;
    std::optional<Platform> platform;
    bool has_annotations = false;
    bool has_urls = false;
};
std::span<json::Field<Descriptor> const> table(json::TableOf<Descriptor>) {
    static constexpr std::array<json::Field<Descriptor>, 6> rows{{
        {.name = "mediaType", .value = as<&Descriptor::media_type, Short>},
        {.name = "digest", .need = Need::required, .value = as<&Descriptor::digest, role::DigestText>},
        {.name = "size",
         .need = Need::required,
         .value = as<&Descriptor::size, json::Integer<std::uint64_t, 0, largest_blob>>},
        {.name = "platform", .value = as<&Descriptor::platform, json::Record<Platform, oci_object>>},
        {.name = "annotations", .value = as<&Descriptor::has_annotations, Texts>},
        {.name = "urls", .value = as<&Descriptor::has_urls, Any>},
    }};
    return rows;
}
using AnyDescriptor = json::Record<Descriptor, oci_object>;

/// The members of both kinds of documents and of Docker's old one: so a document that is two of them is noticed.
struct ImageDocument {
    std::int64_t schema_version = 0;
    std::string media_type;
    std::optional<std::vector<Descriptor>> manifests;
    std::optional<Descriptor> config;
    std::optional<std::vector<Descriptor>> layers;
    bool has_annotations = false;
    bool is_of_schema_1 = false;
};
std::span<json::Field<ImageDocument> const> table(json::TableOf<ImageDocument>) {
    static constexpr std::array<json::Field<ImageDocument>, 8> rows{{
        {.name = "schemaVersion",
         .need = Need::required,
         .value = as<&ImageDocument::schema_version, json::Integer<std::int64_t, 1, 2>>},
        {.name = "mediaType", .value = as<&ImageDocument::media_type, Short>},
        {.name = "manifests", .value = as<&ImageDocument::manifests, json::List<AnyDescriptor>>},
        {.name = "config", .value = as<&ImageDocument::config, AnyDescriptor>},
        {.name = "layers", .value = as<&ImageDocument::layers, json::List<AnyDescriptor>>},
        {.name = "annotations", .value = as<&ImageDocument::has_annotations, Texts>},
        {.name = "fsLayers", .value = as<&ImageDocument::is_of_schema_1, Presence>},
        {.name = "signatures", .value = as<&ImageDocument::is_of_schema_1, Presence>},
    }};
    return rows;
}

/// Determines what a document is, by its content. What it says that it is must agree.
Result<std::string> agree(std::string_view expected, std::string_view says, What what, std::string_view by_default) {
    auto const is_wrong = [what](std::string_view type) { return what_is(type) && *what_is(type) != what; };
    if (is_wrong(says) || (!says.empty() && !what_is(says)))
        return fail(ErrorKind::corrupt, "document says it is " + json::quoted(says) + ", and is not");
    if (is_wrong(expected))
        return fail(ErrorKind::corrupt, "document is not " + json::quoted(expected) + ", as it should be");
    // "application/json" is only a server's guess; a known media type must be the right one.
    if (!says.empty() && what_is(expected) && says != expected)
        return fail(ErrorKind::corrupt,
                    "document says it is " + json::quoted(says) + " instead of " + json::quoted(expected));
    if (!says.empty()) return std::string(says);
    return std::string(what_is(expected) ? expected : by_default);
}

Result<> check_layers(std::vector<Descriptor> const& layers, std::uint32_t most) {
    if (layers.size() > most)
        return fail(ErrorKind::corrupt,
                    "manifest has " + std::to_string(layers.size()) + " layers, more than " + std::to_string(most));
    for (Descriptor const& layer : layers) {
        auto const what = what_is(layer.media_type);
        if (layer.has_urls || what == What::foreign_layer)
            return unsupported("layer " + layer.digest.text() +
                               " is kept elsewhere, and such layers are not supported");
        if (what != What::layer)
            return unsupported("layer " + layer.digest.text() + " has the unknown media type " +
                               json::quoted(layer.media_type));
    }
    return {};
}

Result<std::string> check_manifest(ImageDocument const& document, role::ReadDocument const& request) {
    std::string type = TRY(agree(request.media_type, document.media_type, What::manifest, oci_manifest));
    if (!document.config || !document.layers)
        return fail(ErrorKind::corrupt, "manifest lacks its config or its layers");
    if (!is_config_type(document.config->media_type))
        return unsupported("config has the unknown media type " + json::quoted(document.config->media_type));
    TRY(check_layers(*document.layers, request.most_layers));
    return type;
}

Result<std::string> check_index(ImageDocument const& document, role::ReadDocument const& request) {
    std::string type = TRY(agree(request.media_type, document.media_type, What::index, oci_index));
    if (document.manifests->size() > most_index_entries)
        return fail(ErrorKind::corrupt, "index has " + std::to_string(document.manifests->size()) +
                                            " entries, more than " + std::to_string(most_index_entries));
    return type;
}

// Configurations.

struct RootFs {
    std::string type;
    std::vector<role::Digest> diff_ids;
};
std::span<json::Field<RootFs> const> table(json::TableOf<RootFs>) {
    static constexpr std::array<json::Field<RootFs>, 2> rows{{
        {.name = "type", .need = Need::required, .value = as<&RootFs::type, Short>},
        {.name = "diff_ids", .need = Need::required, .value = as<&RootFs::diff_ids, json::List<role::DigestText>>},
    }};
    return rows;
}

using TextList = json::List<role::String>;
struct Execution {
    std::vector<std::string> environment, entry_point, command;
    std::string working_directory, user, stop_signal;
    bool has_labels = false;
};
std::span<json::Field<Execution> const> table(json::TableOf<Execution>) {
    static constexpr std::array<json::Field<Execution>, 7> rows{{
        {.name = "Env", .value = as<&Execution::environment, TextList>},
        {.name = "Entrypoint", .value = as<&Execution::entry_point, TextList>},
        {.name = "Cmd", .value = as<&Execution::command, TextList>},
        {.name = "WorkingDir", .value = as<&Execution::working_directory, role::String>},
        {.name = "User", .value = as<&Execution::user, role::String>},
        {.name = "StopSignal", .value = as<&Execution::stop_signal, role::String>},
        {.name = "Labels", .value = as<&Execution::has_labels, Texts>},
    }};
    return rows;
}

struct ImageConfig {
    std::string os;
    std::string architecture;
    std::string variant;
    RootFs root_fs;
    std::optional<Execution> execution;
};
std::span<json::Field<ImageConfig> const> table(json::TableOf<ImageConfig>) {
    static constexpr std::array<json::Field<ImageConfig>, 5> rows{{
        {.name = "os", .value = as<&ImageConfig::os, Short>},
        {.name = "architecture", .value = as<&ImageConfig::architecture, Short>},
        {.name = "variant", .value = as<&ImageConfig::variant, Short>},
        {.name = "rootfs",
         .need = Need::required,
         .value = as<&ImageConfig::root_fs, json::Record<RootFs, oci_object>>},
        {.name = "config", .value = as<&ImageConfig::execution, json::Record<Execution, oci_object>>},
    }};
    return rows;
}

// Tags.

bool is_tag(std::string_view text) {
    auto const is_word = [](char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    return !text.empty() && text.size() <= 128 && is_word(text.front()) &&
           std::ranges::all_of(text, [&](char c) { return is_word(c) || c == '.' || c == '-'; });
}
std::optional<std::string> read_tag(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (is_tag(*text)) return *text;
    reading.problems.add(at, json::quoted(*text) + " is not a tag");
    return std::nullopt;
}
constexpr json::Shape tag_text{.types = "string", .longest = 128};

struct Tags {
    std::string name;
    std::vector<std::string> tags;
};
std::span<json::Field<Tags> const> table(json::TableOf<Tags>) {
    static constexpr std::array<json::Field<Tags>, 2> rows{{
        {.name = "name", .value = as<&Tags::name, role::String>},
        {.name = "tags", .value = as<&Tags::tags, json::List<json::Kind<read_tag, tag_text>>>},  // null: none
    }};
    return rows;
}

}  // namespace

Result<std::string> check_image_document(json::Node const& node, role::ReadDocument const& request) {
    json::Reading reading(most_oci_problems);
    auto const document = json::read_object<ImageDocument>(node, {}, reading);
    // Checked before everything else, because such a document has other keys.
    if (document && (document->is_of_schema_1 || document->schema_version == 1))
        return unsupported("document is of Docker's schema 1, which is not supported");
    if (!document || !reading.problems.empty())
        return not_what_it_should_be("document is neither an image manifest nor an index", std::move(reading));
    bool const is_index = document->manifests.has_value();
    bool const is_manifest = document->config || document->layers;
    if (is_index && is_manifest) return fail(ErrorKind::corrupt, "document is a manifest and an index at once");
    if (!is_index && !is_manifest)
        return fail(ErrorKind::corrupt, "document is neither an image manifest nor an index");
    if (request.kind == role::DocumentKind::index && !is_index)
        return fail(ErrorKind::corrupt, "document is not an image index");
    if (request.kind == role::DocumentKind::manifest && !is_manifest)
        return fail(ErrorKind::corrupt, "document is not an image manifest");
    return is_index ? check_index(*document, request) : check_manifest(*document, request);
}

Result<std::string> check_image_config(json::Node const& node, role::ReadDocument const& request) {
    json::Reading reading(most_oci_problems);
    auto const config = json::read_object<ImageConfig>(node, {}, reading);
    if (!config || !reading.problems.empty())
        return not_what_it_should_be("document is not the configuration of an image", std::move(reading));
    if (config->root_fs.type != "layers")
        return unsupported("rootfs is of the unknown type " + json::quoted(config->root_fs.type));
    if (config->root_fs.diff_ids.size() > request.most_layers)
        return fail(ErrorKind::corrupt, "configuration has " + std::to_string(config->root_fs.diff_ids.size()) +
                                            " layers, more than " + std::to_string(request.most_layers));
    return std::string(what_is(request.media_type) == What::config ? request.media_type : oci_config);
}

Result<std::string> check_tags(json::Node const& node) {
    json::Reading reading(most_oci_problems);
    auto const tags = json::read_object<Tags>(node, {}, reading);
    if (!tags || !reading.problems.empty())
        return not_what_it_should_be("document is not a list of tags", std::move(reading));
    if (tags->tags.size() > most_tags)
        return fail(ErrorKind::corrupt, "document has more than " + std::to_string(most_tags) + " tags");
    return std::string();
}

}  // namespace triton::verify
