#include "host/storage/probe.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/storage/btrfs.h"
#include "host/storage/directory_pool.h"
#include "host/storage/pool.h"
#include "host/storage/zfs_pool.h"

namespace triton::storage {

namespace {

UniqueFd unnamed_file(int directory) {
    return UniqueFd{::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
}

/// Opens the directory itself, or its nearest parent that exists. Bounded by the length of the path.
Result<UniqueFd> open_nearest(std::string path) {
    while (true) {
        UniqueFd directory{::open(path.empty() ? "/" : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        if (directory) return directory;
        if (errno != ENOENT || path.empty()) return fail(errno, "open " + path);
        std::size_t const slash = path.rfind('/');
        path = slash == path.npos ? "." : path.substr(0, slash);
    }
}

}  // namespace

bool can_reflink(int directory) {
    UniqueFd const from = unnamed_file(directory);
    UniqueFd const to = unnamed_file(directory);
    // Tested with content, because some file systems succeed when there is nothing to share.
    return from && to && ::write(from.get(), "triton", 6) == 6 && ::ioctl(to.get(), FICLONE, from.get()) == 0;
}

Result<Probe> probe(std::string const& path, std::string const& dataset) {
    Probe probe;
    if (dataset.empty()) {
        probe.reasons.emplace_back("zfs: no dataset is given");
    } else {
        auto const found = probe_zfs(dataset);
        if (found) return Probe{Backend::zfs, {}};
        probe.reasons.push_back("zfs: " + found.error().text());
    }
    UniqueFd const directory = TRY(open_nearest(path));
    if (btrfs::is_btrfs(directory.get())) {
        probe.backend = Backend::btrfs;
        return probe;
    }
    probe.reasons.push_back("btrfs: " + path + " is not on btrfs");
    if (can_reflink(directory.get())) {
        probe.backend = Backend::reflink;
        return probe;
    }
    probe.reasons.push_back("reflink: the file system of " + path + " cannot share blocks between files");
    return probe;
}

Result<std::unique_ptr<Pool>> open_pool(Settings const& settings) {
    if (settings.path.empty() || settings.path.front() != '/')
        return fail("the path of a storage pool must begin with a slash");
    // A configured dataset must be used: without its zpool, for example after a bad start of the system, no other pool
    // takes its place.
    if (settings.backend == Backend::zfs || (!settings.backend && !settings.dataset.empty()))
        return open_zfs_pool(settings);
    return open_directory_pool(settings, settings.backend);
}

}  // namespace triton::storage
