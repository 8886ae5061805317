#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/image/catalog.h"
#include "host/image/image_service.h"
#include "host/image/oci_origin.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// A future image, of which everything but the content is known.
struct Plan {
    Image image;                               ///< without tree, size and time
    std::vector<Layer> layers = {};            ///< lowest first
    std::vector<Descriptor> descriptors = {};  ///< of the layers, in the same order
    std::vector<std::string> diff_ids = {};    ///< "sha256:<hex>" of each layer, uncompressed
    std::vector<role::Digest> documents =
        {};                           ///< blobs that are referred to beside the layers: manifest, configuration
    std::optional<Latch> latch = {};  ///< what the reference will mean from now on
    std::string shown = {};           ///< what the user named
};

/// A lease that ends when the work is done. After an error it stays, so that the command can be repeated without
/// downloading everything again.
class WorkLease {
public:
    static Result<WorkLease> make(Workshop& shop, std::string_view purpose);
    [[nodiscard]] content::LeaseId id() const { return id_; }
    Result<> end() { return shop_->store.end_lease(id_); }

private:
    WorkLease(Workshop& shop, content::LeaseId id) : shop_(&shop), id_(id) {}
    Workshop* shop_;
    content::LeaseId id_;
};

/// Brings the layers of a plan, unpacks each as soon as it and those below are there, and installs the image. When all
/// of it is on disk, it enters the catalog with its references in one step. If two commands install the same image, it
/// happens once.
Result<Imported> install_layers(Workshop& shop, OciOrigin& origin, Plan plan, ImportOptions const& options);

/// Looks at the root directory (borrowed) of a file system that is unpacked and has no name yet.
using RootCheck = std::function<Result<>(int root)>;

/// Installs an image of one archive that is in the store. `diff_id`: "sha256:<hex>", or empty when it is not known.
/// Errors: `corrupt`, when there is nothing in it; those of `check`.
Result<Imported> install_archive(Workshop& shop, content::Blob const& blob, std::string const& diff_id, Plan plan,
                                 ImportOptions const& options, RootCheck const& check = {});

/// Makes an image of a plan whose trees are complete: catalog, references and latch in one step.
Result<> enter_image(Workshop& shop, Plan& plan);

/// What an installed image lacks since files of this host were damaged or removed.
struct Damage {
    bool has_tree = true;
    std::vector<role::Digest> blobs = {};  ///< which it refers to, and which the store does not have
};

/// Returns nothing for an image that lacks nothing, or is not installed. No content is read.
Result<std::optional<Damage>> damage_of(Workshop& shop, Uuid const& uuid);

/// If the image is installed and lacks nothing, sets the latch and tells the user; nothing else needs to be done.
Result<std::optional<Imported>> already_installed(Workshop& shop, Plan const& plan, ImportOptions const& options);

/// Tells the user that an image has been imported or, where it was installed with that damage, repaired.
void tell_installed(Workshop& shop, Image const& image, std::optional<Damage> const& damage);

}  // namespace triton::image
