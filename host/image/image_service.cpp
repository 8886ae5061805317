#include "host/image/image_service.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <set>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/content/reserve.h"
#include "host/image/catalog.h"
#include "host/image/creation.h"
#include "host/image/file_import.h"
#include "host/image/intents.h"
#include "host/image/layer_trees.h"
#include "host/image/oci_import.h"
#include "host/image/removal.h"
#include "host/image/repair.h"
#include "host/image/scrubbing.h"
#include "host/image/site.h"
#include "host/image/source_client.h"
#include "host/image/workshop.h"

namespace triton::image {

namespace {

constexpr auto sources_patience = std::chrono::minutes(1);
constexpr std::array<std::string_view, 4> phase_names{"resolving", "downloading", "unpacking", "finishing"};
static_assert(phase_names.size() == static_cast<std::size_t>(Phase::finishing) + 1);

/// What a reader can use: the catalog, if there is one yet.
struct Reader {
    Configuration configuration;
    std::optional<content::Database> database;
    std::optional<Catalog> catalog;
};

std::unexpected<Error> needs_root(std::string_view what) {
    return fail(ErrorKind::denied, std::string(what) + ": this needs root");
}

/// A name that no other process has, even after a reboot.
Result<std::string> owner_name() { return "command " + TRY(Uuid::random()).text(); }

std::string import_title(Reference const& reference) {
    if (auto const* const uuid = std::get_if<Uuid>(&reference)) return uuid->text();
    if (auto const* const registry = std::get_if<RegistryReference>(&reference)) return registry->text();
    if (auto const* const layout = std::get_if<LayoutReference>(&reference)) return layout->text();
    return std::get<PathReference>(reference).path;
}

}  // namespace

std::string_view name_of(Phase phase) { return phase_names[static_cast<std::size_t>(phase)]; }

Result<> Workshop::check_cancelled() const {
    pollfd waiting{.fd = settings.cancel, .events = POLLIN, .revents = 0};
    if (settings.cancel >= 0 && ::poll(&waiting, 1, 0) > 0) return fail(ErrorKind::refused, "cancelled");
    return {};
}

content::Watcher Workshop::watch(std::string image) const {
    auto const tell = [observer = observer, image = std::move(image),
                       was_waiting = false](content::Progress const& progress) mutable {
        bool const is_waiting = progress.phase == content::Progress::Phase::retrying;
        if (!is_waiting && !was_waiting) return;
        was_waiting = is_waiting;
        observer->progress({.phase = Phase::resolving,
                            .image = image,
                            .waiting_for = std::string(is_waiting ? progress.waiting_for : "")});
    };
    return {.progress = tell, .cancel = settings.cancel};
}

class ImageService::Implementation {
public:
    ~Implementation() {
        if (workshop && workshop->settings.makes_room) content::take_reserve(workshop->site.content);
    }

    std::optional<Reader> reader;
    std::optional<Workshop> workshop;

    Catalog* catalog() {
        if (workshop) return &workshop->catalog;
        return reader->catalog ? &*reader->catalog : nullptr;
    }
    /// Functions that change something are only called on a service that was opened for that.
    Workshop& shop() { return *workshop; }
};

ImageService::ImageService(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
ImageService::ImageService(ImageService&& other) noexcept = default;
ImageService& ImageService::operator=(ImageService&& other) noexcept = default;
ImageService::~ImageService() = default;

namespace {

/// Reads what a reader needs besides the catalog. Returns the path of the database, if there is one.
Result<std::optional<std::string>> find_database(Settings const& settings, Reader& reader) {
    // What changes images makes the root, as everything in it.
    if (!settings.root.empty() && ::access(settings.root.c_str(), F_OK) != 0)
        return fail(errno, "open the root directory " + settings.root);
    Site const site = TRY(read_site(settings));
    reader.configuration = TRY(read_sources(site));
    std::string path = site.content + "/content.db";
    if (::access(path.c_str(), F_OK) == 0) return std::optional(std::move(path));
    if (errno == EACCES) return needs_root("cannot read the catalog of images");
    if (errno != ENOENT) return fail(errno, "look for " + path);
    return std::optional<std::string>();
}

/// Opens the database, if there is one, and its catalog. `open_database`, `open_catalog`: for reading or for holding.
Result<> fill(Reader& reader, Settings const& settings, auto open_database, auto open_catalog) {
    auto const path = TRY(find_database(settings, reader));
    if (!path) return {};
    auto database = open_database(*path);
    if (!database && database.error().kind == ErrorKind::denied && ::geteuid() != 0)
        return needs_root("cannot read the catalog of images");
    reader.database.emplace(TRY(std::move(database)));
    reader.catalog = TRY(open_catalog(*reader.database));
    return {};
}

}  // namespace

Result<ImageService> ImageService::open_for_reading(Settings const& settings) {
    auto implementation = std::make_unique<Implementation>();
    TRY(fill(implementation->reader.emplace(), settings, content::Database::open_for_reading,
             Catalog::open_for_reading));
    return ImageService(std::move(implementation));
}

Result<ImageService> ImageService::open_for_holding(Settings const& settings) {
    auto implementation = std::make_unique<Implementation>();
    auto const open = [](std::string const& path) { return content::Database::open(path); };
    TRY(fill(implementation->reader.emplace(), settings, open, Catalog::open));
    return ImageService(std::move(implementation));
}

Result<ImageService> ImageService::open(Settings const& settings, Observer& observer) {
    if (::geteuid() != 0) return needs_root("cannot change the images of this host");
    auto implementation = std::make_unique<Implementation>();
    Site site = TRY(read_site(settings));
    Configuration configuration = TRY(read_sources(site));
    if (settings.makes_room) (void)content::give_reserve(site.content);
    auto pool = TRY(storage::open_pool(site.storage));
    auto store = TRY(content::Store::open(site.content));
    auto catalog = TRY(Catalog::open(store.database()));
    std::string owner = TRY(owner_name());
    std::optional<content::KeyLock> alive;
    if (!settings.is_dry_run) alive = TRY(store.lock({owner}, std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    implementation->workshop.emplace(Workshop{.settings = settings,
                                              .site = std::move(site),
                                              .configuration = std::move(configuration),
                                              .pool = std::move(pool),
                                              .store = std::move(store),
                                              .catalog = catalog,
                                              .observer = &observer,
                                              .owner = std::move(owner),
                                              .alive = std::move(alive)});
    if (settings.is_dry_run) return ImageService(std::move(implementation));
    Workshop& shop = *implementation->workshop;
    if (!settings.makes_room) content::take_reserve(shop.site.content);
    if (auto const recovered = shop.pool->recover(); !recovered)
        observer.warning("what a killed command has left cannot be removed now: " + recovered.error().text());
    TRY(recover_intents(shop));
    return ImageService(std::move(implementation));
}

Result<std::vector<Image>> ImageService::list() {
    Catalog* const catalog = implementation_->catalog();
    return catalog ? catalog->list() : std::vector<Image>();
}

Result<Image> ImageService::get(Uuid const& uuid) {
    Catalog* const catalog = implementation_->catalog();
    if (!catalog) return fail(ErrorKind::not_found, "image " + uuid.text() + " is not installed");
    return catalog->get(uuid);
}

Result<std::vector<Image>> ImageService::ancestry(Uuid const& uuid) {
    std::vector<Image> images{TRY(get(uuid))};
    std::set<Uuid> seen{uuid};
    while (auto const origin = images.back().manifest.origin) {
        if (!seen.insert(*origin).second)
            return fail(ErrorKind::corrupt, "image " + origin->text() + " is its own origin");
        images.push_back(TRY(get(*origin)));
    }
    return images;
}

Result<Uuid> ImageService::find(Reference const& reference) {
    if (auto const* const uuid = std::get_if<Uuid>(&reference)) return *uuid;
    std::string const title = import_title(reference);
    Catalog* const catalog = implementation_->catalog();
    if (catalog) {
        if (auto const latch = TRY(catalog->latch(title))) return latch->image;
        for (Image const& image : TRY(catalog->list())) {
            if (image.reference == title || image.source == title) return image.uuid();
        }
    }
    return fail(ErrorKind::not_found, "no image is installed that was imported as " + title);
}

Result<std::vector<AvailableImage>> ImageService::available(std::string_view source) {
    return available_images(implementation_->shop(), source);
}

Result<AvailableImage> ImageService::show(Uuid const& uuid, std::string_view source) {
    return available_image(implementation_->shop(), uuid, source);
}

namespace {

Result<Imported> import_oci(Workshop& shop, OciOrigin& origin, OciName const& name, Source const* source,
                            ImportOptions const& options) {
    shop.observer->progress({.phase = Phase::resolving, .image = name.reference});
    OciDocument const root = TRY(resolve(origin));
    if (source) TRY(check_source_signature(shop, *source, name.reference, root.digest));
    Plan plan = TRY(plan_oci(origin, root, name, options));
    return install_layers(shop, origin, std::move(plan), options);
}

/// The platform of an image for other machines than this one, which has been asked for with --platform.
std::optional<Platform> foreign_platform(Image const& image) {
    auto const platform = parse_platform(image.platform);
    return platform && !fitness(*platform, host_platform()) ? std::optional(*platform) : std::nullopt;
}

/// Finds an image by the tag that it was imported under: the tag keeps its meaning, so no registry is asked unless the
/// image has been damaged since. One for other machines is not meant when no platform is asked for.
Result<std::optional<Imported>> latched(Workshop& shop, std::string const& reference, ImportOptions const& options) {
    auto const latch = TRY(shop.catalog.latch(reference));
    if (!latch || options.platform) return std::optional<Imported>();
    auto const image = TRY(shop.catalog.find(latch->image));
    if (!image) return std::optional<Imported>();  // deleted since then
    if (foreign_platform(*image)) return std::optional<Imported>();
    if (TRY(damage_of(shop, image->uuid()))) {
        Image damaged = *image;
        damaged.reference = latch->reference;
        damaged.digest = latch->digest;
        return TRY(repair_image(shop, damaged, options));
    }
    if (!options.is_quiet) {
        shop.observer->message("Image " + image->uuid().text() + " (" + image->manifest.title() +
                               ") is already installed, skipping");
    }
    return Imported{image->uuid(), true};
}

/// Imports one reference of any kind. The lease ends when that has succeeded.
struct Import {
    Workshop& shop;
    ImportOptions const& options;

    Result<Imported> operator()(Uuid const& uuid) const { return import_from_source(shop, uuid, options); }

    Result<Imported> operator()(RegistryReference const& reference) const {
        auto known = options.is_fresh ? std::nullopt : TRY(latched(shop, reference.text(), options));
        if (known) return *known;
        auto access = TRY(registry_access(shop, reference, options));
        Source const* const source = access.source;
        auto lease = TRY(WorkLease::make(shop, "import of " + reference.text()));
        auto const origin = open_registry(shop, lease.id(), reference, std::move(access));
        Imported imported = TRY(import_oci(shop, *origin, name_of(reference), source, options));
        TRY(lease.end());
        return imported;
    }

    Result<Imported> operator()(LayoutReference const& reference) const {
        if (reference.is_archive) return import_layout_archive(shop, reference, options);
        if (auto done = TRY(latched(shop, reference.text(), options))) return *done;
        auto lease = TRY(WorkLease::make(shop, "import of " + reference.text()));
        auto const origin = TRY(open_layout(shop, lease.id(), reference));
        Imported imported = TRY(import_oci(shop, *origin, name_of(reference), nullptr, options));
        TRY(lease.end());
        return imported;
    }

    Result<Imported> operator()(PathReference const& reference) const {
        return import_path(shop, reference.path, options);
    }
};

/// Resolves a tag again at its origin, and imports what it means now unless that is the same.
Result<> update_from(Workshop& shop, OciOrigin& origin, OciName const& name, Source const* source, bool is_dry_run,
                     ImportOptions const& options, UpdateChange& change) {
    OciDocument const root = TRY(resolve(origin));
    if (source) TRY(check_source_signature(shop, *source, name.reference, root.digest));
    change.new_digest = root.digest.text();
    if (change.new_digest == change.old_digest || is_dry_run) return {};
    Plan plan = TRY(plan_oci(origin, root, name, options));
    change.new_image = TRY(install_layers(shop, origin, std::move(plan), options)).uuid;
    return {};
}

/// The path of the layout that a reference names; empty: it names something else.
std::string path_of_layout(std::string_view reference) {
    auto const parsed = parse_reference(reference);
    auto const* const layout = parsed ? std::get_if<LayoutReference>(&*parsed) : nullptr;
    return layout ? layout->path : "";
}

Result<UpdateChange> update_one(Workshop& shop, Latch const& latch, bool is_dry_run, ImportOptions options) {
    Reference const reference = TRY(parse_reference(latch.reference));
    // A successor is for the same machines.
    if (auto const old = shop.catalog.get(latch.image)) options.platform = foreign_platform(*old);
    UpdateChange change{.reference = latch.reference,
                        .old_digest = latch.digest,
                        .new_digest = {},
                        .old_image = latch.image,
                        .new_image = {}};
    auto lease = TRY(WorkLease::make(shop, "update of " + latch.reference));
    auto const update = [&](OciOrigin& origin, OciName const& name, Source const* source) {
        return update_from(shop, origin, name, source, is_dry_run, options, change);
    };
    if (auto const* const registry = std::get_if<RegistryReference>(&reference)) {
        auto access = TRY(registry_access(shop, *registry, options));
        Source const* const source = access.source;
        auto const origin = open_registry(shop, lease.id(), *registry, std::move(access));
        TRY(update(*origin, name_of(*registry), source));
    } else if (auto const& layout = std::get<LayoutReference>(reference); layout.is_archive) {
        TRY(with_layout_archive(
            shop, lease.id(), layout, [&](OciOrigin& origin) { return update(origin, name_of(layout), nullptr); }));
    } else {
        auto const origin = TRY(open_layout(shop, lease.id(), layout));
        TRY(update(*origin, name_of(layout), nullptr));
    }
    TRY(lease.end());
    return change;
}

bool is_gone(std::string const& path) { return ::access(path.c_str(), F_OK) != 0 && errno == ENOENT; }

}  // namespace

Result<Imported> ImageService::import(Reference const& reference, ImportOptions const& options) {
    Workshop& shop = implementation_->shop();
    shop.keeper = options.keeper;
    auto imported = std::visit(Import{shop, options}, reference);
    shop.keeper.reset();
    return imported;
}

Result<std::string> ImageService::resolve(Reference const& reference, ImportOptions const& options) {
    Workshop& shop = implementation_->shop();
    auto lease = TRY(WorkLease::make(shop, "resolving a name"));
    std::unique_ptr<OciOrigin> origin;
    if (auto const* const registry = std::get_if<RegistryReference>(&reference))
        origin = open_registry(shop, lease.id(), *registry, TRY(registry_access(shop, *registry, options)));
    else if (auto const* const layout = std::get_if<LayoutReference>(&reference); layout && !layout->is_archive)
        origin = TRY(open_layout(shop, lease.id(), *layout));
    else
        return fail(ErrorKind::unsupported, "only a registry or a layout says what a name means");
    OciDocument const root = TRY(origin->root());
    TRY(lease.end());
    return root.digest.text();
}

Result<Imported> ImageService::install(std::string_view manifest, std::string const& file,
                                       ImportOptions const& options) {
    return install_file(implementation_->shop(), manifest, file, options);
}

Result<> ImageService::remove(Uuid const& uuid) { return remove_image(implementation_->shop(), uuid); }

Result<std::vector<Image>> ImageService::unused() { return unused_images(implementation_->shop()); }

Result<> ImageService::vacuum(std::span<Uuid const> images) {
    Workshop& shop = implementation_->shop();
    for (Uuid const& image : images) {
        TRY(shop.check_cancelled());
        TRY(remove_if_unused(shop, image));
    }
    return {};
}

Result<std::vector<UpdateChange>> ImageService::update(std::span<Reference const> references, bool is_dry_run,
                                                       ImportOptions const& options) {
    Workshop& shop = implementation_->shop();
    std::vector<Latch> const all = TRY(shop.catalog.latches());
    std::vector<Latch> latches;
    if (references.empty()) latches = all;
    for (Reference const& reference : references) {
        if (auto latch = TRY(shop.catalog.latch(import_title(reference)))) {
            latches.push_back(*std::move(latch));
            continue;
        }
        Uuid const image = TRY(find(reference));
        TRY(get(image));
        std::size_t const before = latches.size();
        std::ranges::copy_if(all, std::back_inserter(latches), [&](Latch const& one) { return one.image == image; });
        if (latches.size() == before) return fail("image " + image.text() + " was not imported by a tag");
    }
    std::vector<UpdateChange> changes;
    for (Latch const& latch : latches) {
        TRY(shop.check_cancelled());
        std::string const path = path_of_layout(latch.reference);
        if (!path.empty() && !path.starts_with('/')) {  // it means something else in another directory
            shop.observer->warning(latch.reference +
                                   " is not looked at: it was imported by an older imgadm, which did not " +
                                   "note the directory; import it again");
            continue;
        }
        if (references.empty() && !path.empty() && is_gone(path)) {
            shop.observer->warning(latch.reference + " does not exist any more, and is not updated");
            continue;
        }
        auto change = update_one(shop, latch, is_dry_run, options);
        if (!change) {
            changes.push_back({.reference = latch.reference,
                               .old_digest = latch.digest,
                               .new_digest = latch.digest,
                               .old_image = latch.image,
                               .new_image = {},
                               .failure = change.error()});
            continue;
        }
        changes.push_back(*std::move(change));
    }
    return changes;
}

Result<Created> ImageService::create(std::string const& directory, CreateOptions const& options) {
    return create_from_directory(implementation_->shop(), directory, options);
}

Result<Created> ImageService::create(Uuid const& machine, CreateOptions const& options) {
    return create_from_machine(implementation_->shop(), machine, options);
}

Result<> ImageService::set_pinned(Uuid const& uuid, bool is_pinned) {
    return implementation_->shop().catalog.set_pinned(uuid, is_pinned);
}

Result<> ImageService::hold(Uuid const& uuid, std::string_view holder) {
    Catalog* const catalog = implementation_->catalog();
    if (!catalog) return fail(ErrorKind::not_found, "image " + uuid.text() + " is not installed");
    return catalog->hold(uuid, holder);
}

Result<> ImageService::release(Uuid const& uuid, std::string_view holder) {
    Catalog* const catalog = implementation_->catalog();
    return catalog ? catalog->release(uuid, holder) : Result<>();
}

Result<> ImageService::release_all(std::string_view holder) {
    Catalog* const catalog = implementation_->catalog();
    return catalog ? catalog->release_all(holder) : Result<>();
}

std::vector<Source> const& ImageService::sources() const {
    return implementation_->workshop ? implementation_->workshop->configuration.sources
                                     : implementation_->reader->configuration.sources;
}

Result<> ImageService::change_sources(SourceChange const& change) {
    Workshop& shop = implementation_->shop();
    content::KeyLock const alone = TRY(shop.lock({"sources"}, sources_patience));
    Configuration changed = TRY(read_sources(shop.site));
    changed.sources = TRY(change(std::move(changed.sources)));
    TRY(write_sources(shop.site, changed));
    shop.configuration = std::move(changed);
    return {};
}

Result<> ImageService::check(Source const& source) { return ping_source(implementation_->shop(), source); }

Result<std::vector<Victim>> ImageService::collect(bool is_dry_run) {
    return collect_garbage(implementation_->shop(), is_dry_run);
}

Result<ScrubReport> ImageService::scrub() { return scrub_content(implementation_->shop()); }

Result<std::vector<std::string>> ImageService::why(std::string_view digest) {
    return reasons_for(implementation_->shop(), digest);
}

storage::Pool& ImageService::pool() { return *implementation_->shop().pool; }

}  // namespace triton::image
