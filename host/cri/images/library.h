#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host/cri/images/credentials.h"
#include "host/cri/images/records.h"
#include "host/cri/images/usage.h"
#include "host/image/image_service.h"
#include "host/image/reference.h"
#include "lib/base/result.h"
#include "lib/base/uuid.h"

namespace triton::cri {

/// The name under which a container holds its images.
std::string container_holder(std::string_view container);

/// The images of this host, for the image service. Each function may block for long, opens what it needs, and may be
/// called from several threads: the library below settles between threads what it settles between processes.
class ImageLibrary {
public:
    /// `warn` is called from any thread. `registries`: the directory of read_registry_hosts().
    ImageLibrary(image::Settings settings, std::function<void(std::string const&)> warn, std::string registries = {})
        : settings_(std::move(settings)), warn_(std::move(warn)), registries_(std::move(registries)) {}

    /// Finishes or removes what a killed process has left. Errors: why images cannot be used.
    Result<> recover();

    Result<std::vector<ImageRecord>> list();

    /// Brings an image in, as the registry has it now. Returns its id. `credentials`: the text of an authfile, or
    /// empty. `cancel`: a descriptor that is readable when the pull is to be given up.
    Result<std::string> pull(image::RegistryReference const& reference, std::string const& credentials, int cancel);

    /// Removes an image with all of its names, which `name` is one of, or its id. One that containers hold loses its
    /// names, and goes with the last of them. Succeeds when there is none.
    /// Errors: `busy` when machines were made from it; `refused` when it is pinned; its names then stay.
    Result<> remove(std::string_view name);

    /// Removes the images that only containers held, which have gone. One that cannot be removed is warned about.
    Result<> remove_unwanted();

    Result<ImageUsage> usage();

private:
    Result<> remove_image(Uuid const& uuid);

    image::Settings settings_;
    std::function<void(std::string const&)> warn_;
    std::string registries_;
    UsageMeter meter_;
};

}  // namespace triton::cri
