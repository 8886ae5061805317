#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "host/volume/work/workbench.h"

namespace triton::volume {

Result<Workbench::Scrub> Workbench::scrub(std::vector<VolumeRow> const& rows, std::function<void()> const& sign) {
    Scrub scrub;
    TRY(store_.scrub([&](content::Scrubbed const& blob) {
        sign();
        ++scrub.blobs;
        scrub.bytes += blob.bytes;
        if (blob.fault) scrub.bad.push_back({blob.digest.text(), *blob.fault, blob.owners});
        return true;
    }));
    auto const content_of = [this](VolumeRow const& row) -> Result<> {
        storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
        auto const pool = TRY(pool_of(row.is_in_vault));
        UniqueFd const directory = TRY(pool->open(tree));
        bool const is_directory = layout_of(row.format) == Layout::directory;
        std::string const entry = is_directory ? "root" : file_name(row.key, row.format);
        struct stat status{};
        if (::fstatat(directory.get(), entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
            return fail(errno, "find " + entry + " in " + tree.text());
        bool const is_as_it_was = is_directory ? S_ISDIR(status.st_mode) : S_ISREG(status.st_mode);
        return is_as_it_was ? Result<>() : fail(ErrorKind::corrupt, "its " + entry + " is of another type");
    };
    for (VolumeRow const& row : rows) {
        sign();
        if (auto const found = content_of(row); !found)
            scrub.missing.push_back("volume " + row.key.text() + ": " + found.error().text());
    }
    return scrub;
}

}  // namespace triton::volume
