#pragma once

#include <cstdint>
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

/// A future image, when everything about it is known except its content.
struct Plan {
    Image image;                               ///< without tree, size and time
    std::vector<Layer> layers = {};            ///< lowest first
    std::vector<Descriptor> descriptors = {};  ///< of the layers, in the same order
    std::vector<std::string> diff_ids = {};    ///< "sha256:<hex>" of each layer, uncompressed
    std::vector<role::Digest> documents =
        {};                           ///< blobs that are referred to beside the layers: manifest, configuration
    std::optional<Latch> latch = {};  ///< what the reference means from now on
    std::string shown = {};           ///< what the user named
};

/// A lease that ends when the work is done. After an error it stays, so that what has been downloaded is there when
/// the command is given again.
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

/// Brings the layers of a plan, unpacks each as soon as it and those below have come, and installs the image: in the
/// catalog in one step, with its references, when all of it is on disk. Two that install one image do it once.
Result<Imported> install_layers(Workshop& shop, OciOrigin& origin, Plan plan, ImportOptions const& options);

/// Installs an image of one archive that is in the store. `diff_id`: "sha256:<hex>", or empty when it is not known.
Result<Imported> install_archive(Workshop& shop, content::Blob const& blob, std::string const& diff_id, Plan plan,
                                 ImportOptions const& options);

/// Makes the image of a plan whose trees are complete one: catalog, references and latch in one step.
Result<> enter_image(Workshop& shop, Plan& plan);

/// If it is installed: the latch is set, the user is told, and there is nothing else to do.
Result<std::optional<Imported>> already_installed(Workshop& shop, Plan const& plan, ImportOptions const& options);

}  // namespace triton::image
