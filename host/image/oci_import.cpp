#include "host/image/oci_import.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "host/image/chain_id.h"
#include "host/image/manifest.h"
#include "lib/json/text.h"

namespace triton::image {

namespace {

constexpr int deepest_index = 2;  // in practice there is at most an index of indexes
constexpr int most_tried = 16;    // manifests without a platform, whose configurations are fetched
constexpr std::size_t shown_digest_digits = 12;
constexpr std::size_t name_limit = 512;
constexpr std::size_t version_limit = 128;

/// The manifest that an index leads to, or the document itself, with its configuration.
struct Chosen {
    OciDocument document;
    OciManifest manifest;
    OciDocument config_document;
    OciConfig config;
    Platform platform;  ///< according to the index, else to the configuration
};

/// Chooses the manifest for a platform, from the document down. One that an index has for that platform is taken
/// whatever its configuration says, as docker and skopeo do.
class Choice {
public:
    Choice(OciOrigin& origin, Platform const& wanted, std::string const& what)
        : origin_(&origin), wanted_(&wanted), what_(&what) {}

    Result<Chosen> choose(OciDocument document, std::optional<Platform> const& said, int depth = 0) {
        auto read = TRY(read_index_or_manifest(document.json, document.media_type, *what_));
        if (auto* const manifest = std::get_if<OciManifest>(&read))
            return take(std::move(document), std::move(*manifest), said);
        if (depth == deepest_index) {
            return fail(ErrorKind::corrupt,
                        *what_ + " has indexes in more than " + std::to_string(deepest_index) + " levels");
        }
        std::vector<std::string> others;
        for (Descriptor const& next : TRY(choose_manifests(std::get<OciIndex>(read), *wanted_, *what_))) {
            if (++tried_ > most_tried) break;
            bool const is_named = next.platform && !next.platform->architecture.empty();
            auto chosen = choose(TRY(origin_->document(next, role::DocumentKind::image)),
                                 is_named ? next.platform : std::nullopt, depth + 1);
            if (chosen || chosen.error().kind != ErrorKind::unsupported || is_named) return chosen;
            others.push_back(chosen.error().text());
        }
        if (others.size() == 1) return fail(ErrorKind::unsupported, others.front());
        return std::unexpected(Error{.kind = ErrorKind::not_found,
                                     .attempted = {},
                                     .reason = *what_ + " has no image for " + wanted_->text(),
                                     .details = std::move(others)});
    }

private:
    Result<Chosen> take(OciDocument document, OciManifest manifest, std::optional<Platform> const& said) {
        OciDocument config_document = TRY(origin_->document(manifest.config, role::DocumentKind::config));
        OciConfig config =
            TRY(read_oci_config(config_document.json, manifest.layers.size(), "the configuration of " + *what_));
        bool const is_named = !config.platform.architecture.empty();
        Platform const platform = canonical(said ? *said : is_named ? config.platform : *wanted_);
        if (!fitness(platform, *wanted_)) {
            return fail(ErrorKind::unsupported, *what_ + " is for " + json::shown(platform.text()) + ", and " +
                                                    wanted_->text() + " is wanted; --platform " +
                                                    json::shown(platform.text()) + " takes it");
        }
        return Chosen{std::move(document), std::move(manifest), std::move(config_document), std::move(config),
                      platform};
    }

    OciOrigin* origin_;
    Platform const* wanted_;
    std::string const* what_;
    int tried_ = 0;
};

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
json::Object further_of(Chosen const& chosen) {
    json::Object oci;
    oci.push_back({"manifest", {chosen.document.digest.text()}});
    oci.push_back({"config", {chosen.config_document.digest.text()}});
    oci.push_back({"platform", {chosen.platform.text()}});
    oci.push_back({"execution", {chosen.config.execution}});
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

/// The name and version of an image here: what the user says, else what an archive calls it, else what it is imported
/// as.
ImageName title_of(OciName const& name, OciDocument const& root, OciDocument const& manifest,
                   ImportOptions const& options) {
    ImageName title{.name = name.name, .tag = name.version};
    ImageName const own = is_image_name(root.name) ? split_image_name(root.name) : ImageName();
    if (!own.name.empty()) title = own;
    if (!options.name.empty()) title.name = options.name;
    if (!options.version.empty()) title.tag = options.version;
    if (title.tag.empty()) title.tag = manifest.digest.hex().substr(0, shown_digest_digits);
    return title;
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
    auto chosen = TRY(Choice(origin, wanted, name.reference).choose(root, std::nullopt));
    OciConfig const& facts = chosen.config;
    OciDocument const& config = chosen.config_document;
    Uuid const uuid = uuid_of_name(image_space(), config.digest.text());
    ImageName const title = title_of(name, root, chosen.document, options);
    Manifest manifest = TRY(make_manifest({.uuid = uuid,
                                           .name = title.name.substr(0, name_limit),
                                           .version = title.tag.substr(0, version_limit),
                                           .type = ImageType::docker,
                                           .published_at = facts.created,
                                           .further = further_of(chosen)}));
    Plan plan{.image = {.manifest = std::move(manifest),
                        .tree = {},
                        .source = name.source,
                        .reference = name.reference,
                        .digest = root.digest.text(),
                        .platform = chosen.platform.text()},
              .layers = layers_of(chosen.manifest, facts),
              .descriptors = std::move(chosen.manifest.layers),
              .diff_ids = facts.diff_ids,
              .documents = {root.digest, chosen.document.digest, config.digest},
              .shown = name.reference};
    if (name.has_tag) plan.latch = Latch{name.reference, root.digest.text(), uuid};
    return plan;
}

}  // namespace triton::image
