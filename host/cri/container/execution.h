#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace runtime::v1 {
class ContainerConfig;
}

namespace triton::cri {

/// What an image says about how to run it: "config" of its configuration.
struct ImageExecution {
    std::vector<std::string> entrypoint = {};
    std::vector<std::string> command = {};
    std::vector<std::string> environment = {};
    std::string working_directory = {};
    std::string user = {};
    std::string stop_signal = {};

    bool operator==(ImageExecution const&) const = default;
};
ImageExecution read_execution(json::Object const& config);

/// The program and its arguments: those of the request, else of the image. A request's command hides the image's
/// arguments, too. Errors: `invalid`: there is none.
Result<std::vector<std::string>> command_of(runtime::v1::ContainerConfig const& config, ImageExecution const& image);

/// The environment: the one that all have, the image's, the request's; of two of one name the later one.
std::vector<std::string> environment_of(runtime::v1::ContainerConfig const& config, ImageExecution const& image,
                                        std::string const& hostname, std::string const& home);

}  // namespace triton::cri
