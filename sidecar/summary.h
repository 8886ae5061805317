#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/files/copy_file.h"

namespace triton::sidecar {

/// One file that was staged.
struct StagedFile {
    std::string path;
    files::Staged staged;
};

/// One round of staging.
struct Round {
    std::vector<StagedFile> files;
    std::vector<std::string> errors;
    bool is_main_container_same = false;
    bool was_stopped = false;
};

/// One line of JSON with its end: {"files":[{"path":"/out/a","bytes":3,"sha256":"...","result":"copied"}],"errors":[]}.
/// `result` is "copied" or "reused". With errors, the files are those that were staged before.
std::string json_summary(Round const& round);

/// "fdbserver  45 %  512 MiB of 1138 MiB  310 MiB/s", to be shown in place of the line before it.
std::string progress_text(std::string_view name, std::uint64_t done, std::uint64_t all, Duration elapsed);

}  // namespace triton::sidecar
