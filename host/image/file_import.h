#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "host/image/image_service.h"
#include "host/image/oci_origin.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Imports a root tarball, compressed or not, or a directory. Unless a UUID is given, it is made from the content.
Result<Imported> import_path(Workshop& shop, std::string const& path, ImportOptions const& options);

/// Installs the file that a manifest describes: a tarball, or a ZFS stream where images are kept on ZFS.
Result<Imported> install_file(Workshop& shop, std::string_view manifest, std::string const& file,
                              ImportOptions const& options);

/// Imports an OCI layout in a tar archive.
Result<Imported> import_layout_archive(Workshop& shop, LayoutReference const& reference, ImportOptions const& options);

/// Has `work` done with the layout in an archive, which is unpacked beside the trees as long as that takes. Errors:
/// those of unpacking it, and of `work`.
Result<> with_layout_archive(Workshop& shop, content::LeaseId lease, LayoutReference const& reference,
                             std::function<Result<>(OciOrigin& origin)> const& work);

/// Checks that an image could be installed here if it is an increment. Errors: `unsupported`.
Result<> check_increment(Workshop const& shop, Manifest const& manifest);

/// Installs an image whose manifest is known and whose file is in the store.
Result<Imported> install_blob(Workshop& shop, content::Blob const& blob, Manifest manifest, std::string const& source,
                              ImportOptions const& options);

/// Checks a manifest before its file is fetched. Warns of oddities. Errors: as check_installable();
/// `invalid` without exactly one file; `refused` without any digest; `not_found` when its origin is not installed.
Result<ImageFile> check_before_install(Workshop& shop, Manifest const& manifest);

/// The expected properties of a file, from its manifest.
Result<role::Expected> expected_of(ImageFile const& file);

}  // namespace triton::image
