#include "host/image/oci_import.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "host/image/chain_id.h"
#include "host/image/manifest.h"

namespace triton::image {

namespace {

constexpr int deepest_index = 2;  // in practice there is at most an index of indexes
constexpr std::size_t shown_digest_digits = 12;
constexpr std::size_t name_limit = 512;
constexpr std::size_t version_limit = 128;

/// The manifest that an index leads to, or the document itself.
struct Chosen {
    OciDocument document;
    OciManifest manifest;
};

Result<Chosen> choose(OciOrigin& origin, OciDocument document, Platform const& wanted, std::string const& what) {
    for (int depth = 0; depth <= deepest_index; ++depth) {
        auto read = TRY(read_index_or_manifest(document.json, document.media_type, what));
        if (auto* const manifest = std::get_if<OciManifest>(&read))
            return Chosen{std::move(document), std::move(*manifest)};
        Descriptor const next = TRY(choose_manifest(std::get<OciIndex>(read), wanted, what));
        document = TRY(origin.document(next, role::DocumentKind::image));
    }
    return fail(ErrorKind::corrupt, what + " has indexes in more than " + std::to_string(deepest_index) + " levels");
}

std::vector<Layer> layers_of(OciManifest const& manifest, OciConfig const& config) {
    std::vector<Layer> layers;
    for (std::size_t i = 0; i < manifest.layers.size(); ++i) {
        std::string const& diff_id = config.diff_ids[i];
        layers.push_back(
            {manifest.layers[i].digest, layers.empty() ? diff_id : extend_chain(layers.back().chain, diff_id)});
    }
    return layers;
}

/// What a machine of the image starts with, for those that make one.
json::Object further_of(OciDocument const& manifest, OciDocument const& config, OciConfig const& facts) {
    json::Object oci;
    oci.push_back({"manifest", {manifest.digest.text()}});
    oci.push_back({"config", {config.digest.text()}});
    oci.push_back({"platform", {facts.platform.text()}});
    oci.push_back({"execution", {facts.execution}});
    json::Object further;
    further.push_back({"oci", {std::move(oci)}});
    return further;
}

std::string last_part(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/'))
        path.remove_suffix(1);
    std::size_t const slash = path.rfind('/');
    return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace

OciName name_of(RegistryReference const& reference) {
    return {.reference = reference.text(),
            .source = reference.host,
            .name = reference.repository,
            .version = reference.tag,
            .has_tag = !reference.tag.empty()};
}

OciName name_of(LayoutReference const& reference) {
    std::string const name = last_part(reference.path);
    return {.reference = reference.text(),
            .source = (reference.is_archive ? "oci-archive:" : "oci:") + reference.path,
            .name = name.empty() || name == "/" ? "oci" : name,
            .version = reference.tag,
            .has_tag = reference.digest.empty()};
}

Result<OciDocument> resolve(OciOrigin& origin) { return origin.root(); }

Result<Plan> plan_oci(OciOrigin& origin, OciDocument const& root, OciName const& name, ImportOptions const& options) {
    Platform const wanted = options.platform.value_or(host_platform());
    auto chosen = TRY(choose(origin, root, wanted, name.reference));
    OciDocument const config = TRY(origin.document(chosen.manifest.config, role::DocumentKind::config));
    OciConfig const facts =
        TRY(read_oci_config(config.json, chosen.manifest.layers.size(), "the configuration of " + name.reference));
    if (!fitness(facts.platform, wanted)) {
        return fail(ErrorKind::unsupported, name.reference + " is for " + facts.platform.text() + ", and " +
                                                wanted.text() + " is wanted; --platform takes another");
    }
    Uuid const uuid = uuid_of_name(image_space(), config.digest.text());
    std::string version = !options.version.empty() ? options.version : name.version;
    if (version.empty()) version = chosen.document.digest.hex().substr(0, shown_digest_digits);
    Manifest manifest =
        TRY(make_manifest({.uuid = uuid,
                           .name = (options.name.empty() ? name.name : options.name).substr(0, name_limit),
                           .version = version.substr(0, version_limit),
                           .type = ImageType::docker,
                           .published_at = facts.created,
                           .further = further_of(chosen.document, config, facts)}));
    Plan plan{.image = {.manifest = std::move(manifest),
                        .tree = {},
                        .source = name.source,
                        .reference = name.reference,
                        .digest = root.digest.text(),
                        .platform = facts.platform.text()},
              .layers = layers_of(chosen.manifest, facts),
              .descriptors = std::move(chosen.manifest.layers),
              .diff_ids = facts.diff_ids,
              .documents = {root.digest, chosen.document.digest, config.digest},
              .shown = name.reference};
    if (name.has_tag) plan.latch = Latch{name.reference, root.digest.text(), uuid};
    return plan;
}

}  // namespace triton::image
