#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/volume/keep/documents.h"
#include "lib/base/result.h"

namespace triton::program {

/// The objects in the files of a directory, "/etc/triton/volumes.d": each `*.json` is one object, or a list of them, as
/// Put takes it. A directory that does not exist has none. Errors: those of reading; `invalid`, with the file: then
/// none of it counts, since what a broken file means is not known.
Result<std::vector<volume::Config>> read_published_files(std::string const& directory);

/// The objects in the text of one such file. `path`: its name in errors. Errors: `invalid`.
Result<std::vector<volume::Config>> parse_published_file(std::string_view text, std::string const& path);

}  // namespace triton::program
