#include "host/image/oci_documents.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "host/image/reference.h"
#include "lib/base/joined.h"
#include "lib/json/table.h"
#include "lib/json/text.h"
#include "lib/json/values.h"

namespace triton::image {

namespace {

using json::as;
using json::Need;

constexpr json::Limits oci_limits{.document_bytes = largest_document, .depth = 32, .values = 1 << 17, .problems = 10};

struct MediaType {
    std::string_view name;
    OciKind kind;
};
constexpr std::array<MediaType, 12> media_types{{
    {"application/vnd.oci.image.index.v1+json", OciKind::index},
    {"application/vnd.docker.distribution.manifest.list.v2+json", OciKind::index},
    {"application/vnd.oci.image.manifest.v1+json", OciKind::manifest},
    {"application/vnd.docker.distribution.manifest.v2+json", OciKind::manifest},
    {"application/vnd.oci.image.config.v1+json", OciKind::config},
    {"application/vnd.docker.container.image.v1+json", OciKind::config},
    {"application/vnd.oci.image.layer.v1.tar", OciKind::layer},
    {"application/vnd.oci.image.layer.v1.tar+gzip", OciKind::layer},
    {"application/vnd.oci.image.layer.v1.tar+zstd", OciKind::layer},
    {"application/vnd.docker.image.rootfs.diff.tar", OciKind::layer},
    {"application/vnd.docker.image.rootfs.diff.tar.gzip", OciKind::layer},
    {"application/vnd.docker.image.rootfs.diff.tar.zstd", OciKind::layer},
}};

OciKind kind_of(std::string_view media_type) {
    auto const row = std::ranges::find(media_types, media_type, &MediaType::name);
    return row == media_types.end() ? OciKind::other : row->kind;
}

bool is_config_type(std::string_view media_type) {
    return kind_of(media_type) == OciKind::config ||
           std::ranges::find(role::old_config_types, media_type) != role::old_config_types.end();
}

struct OciReading : json::Reading {
    OciReading() : json::Reading(oci_limits.problems) {}
};

std::optional<std::string> read_oci_digest(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (is_sha256_digest(*text)) return *text;
    reading.problems.add(at, json::quoted(*text, 100) + " is not sha256: and 64 lower-case hexadecimal digits");
    return std::nullopt;
}
constexpr json::Shape oci_digest_text{.types = "string"};
using OciDigestText = json::Kind<read_oci_digest, oci_digest_text>;

std::optional<std::string> read_short_text(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (text->size() <= 256) return *text;
    reading.problems.add(at, "is longer than 256 bytes");
    return std::nullopt;
}
constexpr json::Shape short_text{.types = "string", .longest = 256};
using ShortText = json::Kind<read_short_text, short_text>;

std::span<json::Field<Platform, OciReading> const> table(json::TableOf<Platform, OciReading>) {
    static constexpr std::array<json::Field<Platform, OciReading>, 3> rows{{
        {.name = "os", .value = as<&Platform::os, ShortText>},
        {.name = "architecture", .value = as<&Platform::architecture, ShortText>},
        {.name = "variant", .value = as<&Platform::variant, ShortText>},
    }};
    return rows;
}
constexpr json::Shape platform_shape = json::object_shape("Platform");

/// Reads the names that a layout gives; nothing else matters.
void parse_annotations(json::Node const& node, json::Where const& at, Descriptor& descriptor, OciReading& reading) {
    auto const* const all = json::expect<json::Object>("an object", node, at, reading);
    if (!all) return;
    struct Row {
        std::string_view key;
        std::string Descriptor::* member;
    };
    for (Row const& row : {Row{"org.opencontainers.image.ref.name", &Descriptor::reference_name},
                           Row{"io.containerd.image.name", &Descriptor::image_name}}) {
        auto const name = std::ranges::find(*all, row.key, &json::Member::key);
        if (name == all->end()) continue;
        if (auto text = ShortText::read(name->node, json::Where{&at, name->key}, reading))
            descriptor.*row.member = *std::move(text);
    }
}

std::span<json::Field<Descriptor, OciReading> const> table(json::TableOf<Descriptor, OciReading>) {
    static constexpr json::Shape map{.types = "object"};
    static constexpr std::array<json::Field<Descriptor, OciReading>, 5> rows{{
        {.name = "mediaType", .value = as<&Descriptor::media_type, ShortText>},
        {.name = "digest", .need = Need::required, .value = as<&Descriptor::digest, OciDigestText>},
        {.name = "size",
         .need = Need::required,
         .value = as<&Descriptor::size, json::Integer<std::uint64_t, 0, std::int64_t{largest_layer}>>},
        {.name = "platform", .value = as<&Descriptor::platform, json::Record<Platform, platform_shape>>},
        {.name = "annotations", .value = {&map, parse_annotations}},
    }};
    return rows;
}
constexpr json::Shape descriptor_shape = json::object_shape("Descriptor");
using AnyDescriptor = json::Record<Descriptor, descriptor_shape>;

/// Reads at most `most` descriptors: the author of the document controls how many there are.
template <std::size_t most>
struct Descriptors {
    static constexpr json::Shape shape{.types = "array"};
    static std::optional<std::vector<Descriptor>> read(json::Node const& node, json::Where const& at,
                                                       OciReading& reading) {
        auto const* const array = json::expect<json::Array>("an array", node, at, reading);
        if (!array) return std::nullopt;
        if (array->size() > most) {
            reading.problems.add(
                at, "has " + std::to_string(array->size()) + " entries, more than " + std::to_string(most));
            return std::nullopt;
        }
        auto all = json::List<AnyDescriptor>::read(node, at, reading);
        for (Descriptor& one : *all)
            one.kind = kind_of(one.media_type);
        return all;
    }
};

/// The members of both kinds of documents: so a document that is both is noticed.
struct Document {
    std::int64_t schema_version = 0;
    std::string media_type;
    std::optional<std::vector<Descriptor>> manifests;
    std::optional<Descriptor> config;
    std::optional<std::vector<Descriptor>> layers;
    bool has_fs_layers = false;
};

std::span<json::Field<Document, OciReading> const> table(json::TableOf<Document, OciReading>) {
    static constexpr json::Value<Document, OciReading> fs_layers{
        &json::any_text,
        [](json::Node const&, json::Where const&, Document& document, OciReading&) { document.has_fs_layers = true; }};
    static constexpr std::array<json::Field<Document, OciReading>, 6> rows{{
        {.name = "schemaVersion",
         .need = Need::required,
         .value = as<&Document::schema_version, json::Integer<std::int64_t, 1, 2>>},
        {.name = "mediaType", .value = as<&Document::media_type, ShortText>},
        {.name = "manifests", .value = as<&Document::manifests, Descriptors<most_manifests>>},
        {.name = "config", .value = as<&Document::config, AnyDescriptor>},
        {.name = "layers", .value = as<&Document::layers, Descriptors<most_layers>>},
        {.name = "fsLayers", .value = fs_layers},
    }};
    return rows;
}

struct LayoutDocument {
    std::string version;
};

std::span<json::Field<LayoutDocument, OciReading> const> table(json::TableOf<LayoutDocument, OciReading>) {
    static constexpr std::array<json::Field<LayoutDocument, OciReading>, 1> rows{{
        {.name = "imageLayoutVersion", .need = Need::required, .value = as<&LayoutDocument::version, ShortText>},
    }};
    return rows;
}

/// Reads at most `most` texts.
template <class Text, std::size_t most>
struct Texts {
    static constexpr json::Shape shape{.types = "array"};
    static std::optional<std::vector<std::string>> read(json::Node const& node, json::Where const& at,
                                                        OciReading& reading) {
        auto const* const array = json::expect<json::Array>("an array", node, at, reading);
        if (!array) return std::nullopt;
        if (array->size() <= most) return json::List<Text>::read(node, at, reading);
        reading.problems.add(at, "has more than " + std::to_string(most) + " entries");
        return std::nullopt;
    }
};

struct RootFs {
    std::string type;
    std::vector<std::string> diff_ids;
};

std::span<json::Field<RootFs, OciReading> const> table(json::TableOf<RootFs, OciReading>) {
    static constexpr std::array<json::Field<RootFs, OciReading>, 2> rows{{
        {.name = "type", .need = Need::required, .value = as<&RootFs::type, ShortText>},
        {.name = "diff_ids", .need = Need::required, .value = as<&RootFs::diff_ids, Texts<OciDigestText, most_layers>>},
    }};
    return rows;
}
constexpr json::Shape root_fs_shape = json::object_shape("RootFs");

struct ConfigDocument {
    Platform platform;
    std::string created;
    RootFs root_fs;
    json::Object execution;
};

template <std::string Platform::* member>
constexpr json::Value<ConfigDocument, OciReading> of_platform{
    &short_text, [](json::Node const& node, json::Where const& at, ConfigDocument& document, OciReading& reading) {
        if (auto text = ShortText::read(node, at, reading); text && !text->empty())
            document.platform.*member = *std::move(text);
    }};

std::span<json::Field<ConfigDocument, OciReading> const> table(json::TableOf<ConfigDocument, OciReading>) {
    static constexpr json::Shape object{.types = "object"};
    static constexpr json::Value<ConfigDocument, OciReading> execution{
        &object, [](json::Node const& node, json::Where const& at, ConfigDocument& document, OciReading& reading) {
            if (auto const* const members = json::expect<json::Object>("an object", node, at, reading))
                document.execution = *members;
        }};
    static constexpr std::array<json::Field<ConfigDocument, OciReading>, 6> rows{{
        {.name = "os", .value = of_platform<&Platform::os>},
        {.name = "architecture", .value = of_platform<&Platform::architecture>},
        {.name = "variant", .value = of_platform<&Platform::variant>},
        {.name = "created", .value = as<&ConfigDocument::created, ShortText>},
        {.name = "config", .value = execution},
        {.name = "rootfs",
         .need = Need::required,
         .value = as<&ConfigDocument::root_fs, json::Record<RootFs, root_fs_shape>>},
    }};
    return rows;
}

// manifest.json of docker save.

/// Reads a path: relative, and nothing that leads out of a directory.
std::optional<std::string> read_inner_path(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    constexpr std::size_t longest = 1024;
    bool const is_short = !text->empty() && text->size() <= longest && text->find('\0') == std::string::npos;
    if (is_short && text->front() != '/' && !("/" + *text + "/").contains("/../")) return *text;
    reading.problems.add(at, json::quoted(*text) + " is not the path of a file in an archive");
    return std::nullopt;
}
constexpr json::Shape inner_path{.types = "string", .shortest = 1, .longest = 1024};
using InnerPath = json::Kind<read_inner_path, inner_path>;

std::span<json::Field<SavedImage, OciReading> const> table(json::TableOf<SavedImage, OciReading>) {
    static constexpr std::array<json::Field<SavedImage, OciReading>, 3> rows{{
        {.name = "Config", .need = Need::required, .value = as<&SavedImage::config, InnerPath>},
        {.name = "RepoTags", .value = as<&SavedImage::names, Texts<ShortText, most_manifests>>},
        {.name = "Layers", .need = Need::required, .value = as<&SavedImage::layers, Texts<InnerPath, most_layers>>},
    }};
    return rows;
}
constexpr json::Shape saved_image_shape = json::object_shape("SavedImage");

std::unexpected<Error> corrupt(std::string_view what, std::string_view is_not, OciReading& reading) {
    std::vector<std::string> details;
    for (json::Problem const& problem : std::move(reading.problems).take())
        details.push_back(problem.text());
    return std::unexpected(Error{.kind = ErrorKind::corrupt,
                                 .attempted = {},
                                 .reason = std::string(what) + " is not " + std::string(is_not),
                                 .details = std::move(details)});
}

std::unexpected<Error> corrupt(std::string_view what, std::string why) {
    return fail(ErrorKind::corrupt, std::string(what) + " " + std::move(why));
}

/// The kind that a document's members show, if it is also called that.
Result<OciKind> kind_of_document(Document const& document, std::string_view media_type, std::string_view what) {
    if (document.has_fs_layers || document.schema_version == 1)
        return fail(ErrorKind::unsupported,
                    std::string(what) + " has Docker's schema 1, which has no digests to verify");
    bool const has_manifest_parts = document.config || document.layers;
    if (document.manifests && has_manifest_parts) return corrupt(what, "is a manifest and an index at once");
    if (!document.manifests && !(document.config && document.layers))
        return corrupt(what, "has neither manifests nor config and layers");
    OciKind const kind = document.manifests ? OciKind::index : OciKind::manifest;
    for (std::string_view const said : {media_type, std::string_view(document.media_type)}) {
        if (!said.empty() && kind_of(said) != kind)
            return corrupt(what, "is called " + json::shown(said) + ", which it is not");
    }
    return kind;
}

Result<OciManifest> check_manifest(Document&& document, std::string_view what) {
    OciManifest manifest{.config = *std::move(document.config), .layers = *std::move(document.layers)};
    if (!is_config_type(manifest.config.media_type)) {
        return fail(ErrorKind::unsupported, std::string(what) + " is not of a container image: its configuration is " +
                                                json::shown(manifest.config.media_type));
    }
    manifest.config.kind = OciKind::config;
    if (manifest.layers.empty()) return corrupt(what, "has no layer");
    for (Descriptor const& layer : manifest.layers) {
        if (layer.kind == OciKind::layer) continue;
        return fail(ErrorKind::unsupported, std::string(what) + " has a layer of type " +
                                                json::shown(layer.media_type) + ", which cannot be unpacked");
    }
    if (manifest.config.size > largest_document) return corrupt(what, "has a configuration of more than 4 MiB");
    return manifest;
}

std::string listed(std::vector<std::string> const& words) { return words.empty() ? "none" : joined(words, ", "); }

}  // namespace

Result<std::variant<OciIndex, OciManifest>> read_index_or_manifest(std::string_view text, std::string_view media_type,
                                                                   std::string_view what) {
    OciReading reading;
    std::optional<Document> document;
    if (auto const node = json::read_json(text, oci_limits, reading.problems))
        document = json::read_object<Document>(*node, json::Where{}, reading);
    if (!reading.problems.empty() || !document) return corrupt(what, "a manifest or an index", reading);
    switch (TRY(kind_of_document(*document, media_type, what))) {
        case OciKind::index: return OciIndex{*std::move(document->manifests)};
        case OciKind::manifest: return TRY(check_manifest(*std::move(document), what));
        case OciKind::config:
        case OciKind::layer:
        case OciKind::other: break;
    }
    std::unreachable();
}

Result<std::string> read_layout_version(std::string_view text, std::string_view what) {
    OciReading reading;
    std::optional<LayoutDocument> document;
    if (auto const node = json::read_json(text, oci_limits, reading.problems))
        document = json::read_object<LayoutDocument>(*node, json::Where{}, reading);
    if (!reading.problems.empty() || !document) return corrupt(what, "the version of a layout", reading);
    return std::move(document->version);
}

Result<OciConfig> read_oci_config(std::string_view text, std::size_t layers, std::string_view what) {
    OciReading reading;
    std::optional<ConfigDocument> document;
    if (auto const node = json::read_json(text, oci_limits, reading.problems))
        document = json::read_object<ConfigDocument>(*node, json::Where{}, reading);
    if (!reading.problems.empty() || !document) return corrupt(what, "the configuration of an image", reading);
    if (document->root_fs.type != "layers") return corrupt(what, "has a root file system that is not made of layers");
    if (document->root_fs.diff_ids.size() != layers) {
        return corrupt(what, "has " + std::to_string(document->root_fs.diff_ids.size()) + " diff_ids for " +
                                 std::to_string(layers) + " layers");
    }
    return OciConfig{.platform = std::move(document->platform),
                     .created = std::move(document->created),
                     .diff_ids = std::move(document->root_fs.diff_ids),
                     .execution = std::move(document->execution)};
}

Result<std::vector<Descriptor>> choose_manifests(OciIndex const& index, Platform const& wanted, std::string_view what) {
    std::vector<std::optional<Platform>> offered;
    std::vector<std::string> texts;
    std::vector<Descriptor const*> candidates;
    for (Descriptor const& one : index.manifests) {
        if (one.kind != OciKind::manifest && one.kind != OciKind::index) continue;
        // An attestation of BuildKit, which is about another one.
        if (one.platform && one.platform->os == "unknown" && one.platform->architecture == "unknown") continue;
        candidates.push_back(&one);
        offered.push_back(one.platform);
        bool const is_named = one.platform && !one.platform->architecture.empty();
        texts.push_back(is_named ? json::shown(one.platform->text()) : "(one without a platform)");
    }
    std::vector<Descriptor> chosen;
    for (std::size_t const i : select_platforms(offered, wanted))
        chosen.push_back(*candidates[i]);
    if (!chosen.empty()) return chosen;
    return fail(ErrorKind::not_found,
                std::string(what) + " has no image for " + wanted.text() + "; it has: " + listed(texts));
}

Result<std::size_t> choose_named(std::span<NamedImage const> images, std::string_view wanted, std::string_view what) {
    using Matches = bool (*)(std::string_view name, std::string_view wanted);
    constexpr std::array<Matches, 3> ways{
        [](std::string_view name, std::string_view one) { return name == one; },
        [](std::string_view name, std::string_view one) {
            return name.find_first_of("/:") != std::string_view::npos &&
                   whole_image_name(name) == whole_image_name(one);
        },
        [](std::string_view name, std::string_view one) { return split_image_name(name).tag == one; }};
    for (Matches const matches : ways) {
        std::vector<std::string> identities;
        std::optional<std::size_t> found;
        for (std::size_t i = 0; i < images.size(); ++i) {
            auto const is_meant = [&](std::string_view name) { return wanted.empty() || matches(name, wanted); };
            if (!wanted.empty() && std::ranges::none_of(images[i].names, is_meant)) continue;
            found = i;
            if (std::ranges::find(identities, images[i].identity) == identities.end())
                identities.push_back(images[i].identity);
        }
        if (identities.size() == 1) return *found;
        if (identities.empty() || wanted.empty()) continue;
        // A tool that saves several images under one tag says in its own way which is which.
        return fail(ErrorKind::invalid, std::string(what) +
                                            ": several images have this tag; @ and one of these instead "
                                            "of the tag names one: " +
                                            joined(identities, ", "));
    }
    std::vector<std::string> names;
    for (NamedImage const& image : images) {
        if (image.names.empty()) names.emplace_back("(one without a tag)");
        for (std::string const& name : image.names)
            names.push_back(json::shown(name));
    }
    std::string const which = wanted.empty() ? " has several images; name one of its tags: "
                                             : " has no tag " + json::shown(wanted) + "; it has: ";
    return fail(ErrorKind::not_found, std::string(what) + which + listed(names));
}

Result<Descriptor> choose_tag(OciIndex const& index, std::string_view tag, std::string_view what) {
    std::vector<NamedImage> images;
    for (Descriptor const& one : index.manifests) {
        images.push_back({.identity = one.digest, .names = {}});
        for (std::string const& name : {one.reference_name, one.image_name})
            if (!name.empty()) images.back().names.push_back(name);
    }
    return index.manifests[TRY(choose_named(images, tag, what))];
}

Result<std::vector<SavedImage>> read_saved_images(std::string_view text, std::string_view what) {
    OciReading reading;
    std::optional<std::vector<SavedImage>> images;
    auto const node = json::read_json(text, oci_limits, reading.problems);
    if (node) images = json::List<json::Record<SavedImage, saved_image_shape>>::read(*node, json::Where{}, reading);
    if (!reading.problems.empty() || !images) return corrupt(what, "a list of images", reading);
    if (images->empty()) return corrupt(what, "has no image");
    if (images->size() > most_saved_images)
        return corrupt(what, "has more than " + std::to_string(most_saved_images) + " images");
    return *std::move(images);
}

std::vector<std::string> accepted_media_types() {
    std::vector<std::string> types;
    for (MediaType const& row : media_types) {
        if (row.kind == OciKind::index || row.kind == OciKind::manifest) types.emplace_back(row.name);
    }
    return types;
}

}  // namespace triton::image
