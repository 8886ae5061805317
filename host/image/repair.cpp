#include "host/image/repair.h"

#include <utility>
#include <variant>

#include "host/image/file_import.h"
#include "host/image/oci_import.h"
#include "host/image/oci_origin.h"
#include "host/image/source_client.h"

namespace triton::image {

namespace {

Result<Imported> repair_oci(Workshop& shop, OciOrigin& origin, OciName const& name, Image const& image,
                            ImportOptions const& options) {
    OciDocument const root = TRY(resolve(origin));
    Plan plan = TRY(plan_oci(origin, root, name, options));
    plan.latch.reset();  // its tag may mean another image since then
    if (plan.image.uuid() == image.uuid()) return install_layers(shop, origin, std::move(plan), options);
    return fail(ErrorKind::corrupt, name.reference + " is not image " + image.uuid().text() + " any longer");
}

/// Asks for the digest, because a tag may have moved. Nobody is asked when the store has all that is needed.
struct Repair {
    Workshop& shop;
    Image const& image;
    ImportOptions const& options;

    Result<Imported> operator()(RegistryReference const& reference) const {
        if (auto repaired = TRY(from_store(name_of(reference)))) return *repaired;
        RegistryReference exact = reference;
        exact.digest = image.digest;
        auto access = TRY(registry_access(shop, reference, options));
        auto lease = TRY(WorkLease::make(shop, "repair of " + image.uuid().text()));
        auto const origin = open_registry(shop, lease.id(), exact, std::move(access));
        Imported repaired = TRY(repair_oci(shop, *origin, name_of(reference), image, options));
        TRY(lease.end());
        return repaired;
    }

    Result<Imported> operator()(LayoutReference const& reference) const {
        LayoutReference exact = reference;
        exact.digest = image.digest;
        if (auto repaired = TRY(from_store(name_of(reference)))) return *repaired;
        if (reference.is_archive) return import_layout_archive(shop, exact, options);
        auto lease = TRY(WorkLease::make(shop, "repair of " + image.uuid().text()));
        auto const origin = TRY(open_layout(shop, lease.id(), exact));
        Imported repaired = TRY(repair_oci(shop, *origin, name_of(reference), image, options));
        TRY(lease.end());
        return repaired;
    }

    Result<Imported> operator()(Uuid const&) const { return by_file(); }
    Result<Imported> operator()(PathReference const&) const { return by_file(); }

    Result<std::optional<Imported>> from_store(OciName const& name) const {
        auto const damage = TRY(damage_of(shop, image.uuid()));
        if (!damage || !damage->blobs.empty()) return std::optional<Imported>();
        auto lease = TRY(WorkLease::make(shop, "repair of " + image.uuid().text()));
        auto const origin = open_stored(shop, lease.id(), image.digest);
        auto repaired = repair_oci(shop, *origin, name, image, options);
        TRY(lease.end());
        if (repaired) return *std::move(repaired);
        TRY(shop.check_cancelled());
        return std::optional<Imported>();  // it lacks something, and its origin has the whole
    }

    Result<Imported> by_file() const {
        auto lease = TRY(WorkLease::make(shop, "repair of " + image.uuid().text()));
        auto const damage = TRY(damage_of(shop, image.uuid()));
        content::Blob const blob = TRY(fetch_image_file(shop, image, lease.id(), options.source));
        if (damage && !TRY(damage_of(shop, image.uuid()))) {  // only the file was missing
            TRY(lease.end());
            tell_installed(shop, image, damage);
            return Imported{image.uuid(), false};
        }
        Imported repaired = TRY(install_blob(shop, blob, image.manifest, image.source, options));
        TRY(lease.end());
        return repaired;
    }
};

}  // namespace

Result<Imported> repair_image(Workshop& shop, Image const& image, ImportOptions options) {
    if (auto const platform = parse_platform(image.platform)) options.platform = *platform;
    Reference const reference = image.reference.empty() ? image.uuid() : TRY(parse_reference(image.reference));
    return std::visit(Repair{shop, image, options}, reference);
}

}  // namespace triton::image
