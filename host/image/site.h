#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "host/image/image_service.h"
#include "host/image/sources.h"
#include "host/storage/pool.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::image {

/// Where this host keeps its images, and how.
struct Site {
    std::string content;        ///< directory of the content store
    std::string images;         ///< directory of the derived <uuid>.json
    std::string configuration;  ///< imgadm.conf
    storage::Settings storage;
    std::optional<storage::Settings> vault = {};  ///< of encrypted volumes
};

/// Reads `triton.json`; without the file everything has its default. Keys of other programs are ignored.
/// Errors: `invalid`, "<path> is not a configuration", with details, or when the settings name another pool; those of
/// reading it.
Result<Site> read_site(Settings const& settings);

/// Reads imgadm.conf; without the file there are no sources. Errors: as read_configuration().
Result<Configuration> read_sources(Site const& site);

/// Replaces the whole imgadm.conf, or nothing of it. Errors: those of the file system.
Result<> write_sources(Site const& site, Configuration const& configuration);

/// Replaces or removes images/<uuid>.json, which users of the other imgadm expect. It is derived, and never read here.
Result<> write_derived(Site const& site, Image const& image);
Result<> remove_derived(Site const& site, Uuid const& uuid);

/// Replaces the whole content of a file and makes it durable; missing directories are made. Errors: those of the file
/// system.
Result<> replace_file(std::string const& path, std::string_view content, mode_t mode);

/// Opens a directory in a way that allows fsync(2), and makes missing ones. Errors: those of the file system.
Result<UniqueFd> open_durable_directory(std::string const& path);

}  // namespace triton::image
