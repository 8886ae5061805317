#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "host/content/fetcher.h"
#include "host/image/oci_documents.h"
#include "host/image/reference.h"
#include "host/image/sources.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"
#include "lib/files/confined_directory.h"

namespace triton::image {

/// A verified document of an image.
struct OciDocument {
    role::Digest digest;
    std::uint64_t size = 0;
    std::string media_type;
    std::string json;
    std::string name = {};  ///< its name in an archive or a layout, which may be anything: "team/app:1.0"
};

/// An origin of the documents and layers of an OCI image. Everything from it is verified and in the content store,
/// under the lease that was given to it.
class OciOrigin {
public:
    virtual ~OciOrigin() = default;

    /// The manifest or index that the reference names. Errors: `not_found`, with what there is instead; those of
    /// reading it.
    virtual Result<OciDocument> root() = 0;
    virtual Result<OciDocument> document(Descriptor const& descriptor, role::DocumentKind kind) = 0;

    /// `arrived` is called with each layer as soon as it is in the store, in any order; its errors end the work.
    /// `progress` is called now and then with the number of bytes that have arrived, and with the failure after which
    /// something is tried again.
    struct Watcher {
        std::function<Result<>(std::size_t layer, content::Blob const& blob)> arrived;
        std::function<void(std::uint64_t bytes, std::string_view waiting_for)> progress;
        int cancel = -1;
    };
    virtual Result<> bring(std::span<Descriptor const> layers, Watcher const& watcher) = 0;
};

/// How to reach a registry.
struct RegistryAccess {
    std::vector<RegistryHost> hosts;  ///< in the order in which they are asked
    content::Access access;
    Source const* source = nullptr;  ///< of imgadm.conf; null: it has none for this registry
};

/// How to reach a registry, according to imgadm.conf and the options. Errors: those of reading an authfile; `refused`:
/// none of the servers that the options have may be asked for such a reference.
Result<RegistryAccess> registry_access(Workshop const& shop, RegistryReference const& reference,
                                       ImportOptions const& options);

std::unique_ptr<OciOrigin> open_registry(Workshop& shop, content::LeaseId lease, RegistryReference const& reference,
                                         RegistryAccess access);

/// What the store still has of the image whose manifest or index has that digest; it fails with `not_found` when a part
/// that is asked for is missing.
std::unique_ptr<OciOrigin> open_stored(Workshop& shop, content::LeaseId lease, std::string const& digest);

/// Opens a layout, or what docker save writes. `directory_path`: where an archive has been unpacked; empty: the path of
/// the reference. Errors: those of opening it; `not_found` when it is neither.
Result<std::unique_ptr<OciOrigin>> open_layout(Workshop& shop, content::LeaseId lease, LayoutReference const& reference,
                                               std::string const& directory_path = {});

/// The images of docker save in a directory. root() brings the layers into the store, and makes a manifest of OCI: the
/// format has none, and its layers have no digests.
std::unique_ptr<OciOrigin> open_saved_images(Workshop& shop, content::LeaseId lease, LayoutReference const& reference,
                                             files::ConfinedDirectory directory);

}  // namespace triton::image
