#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <zlib.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::program {

/// A file of a container's log: the one that grows, or one that had its name before.
class LogFile {
public:
    /// Errors: those of open(2).
    static Result<LogFile> open(std::string path);
    /// One that does not grow any more. It may be compressed by gzip, as kubelet leaves all but the newest.
    static Result<LogFile> open_rotated(std::string path);

    /// Zero: nothing is there to read yet, or ever. Errors: those of read(2); `corrupt`: it is no whole gzip file.
    Result<std::size_t> read(std::span<char> block);
    /// Of what was opened, whatever its name has become. Only for one that grows.
    [[nodiscard]] int fd() const { return file_.get(); }
    [[nodiscard]] bool is_same(LogFile const& other) const {
        return device_ == other.device_ && inode_ == other.inode_;
    }
    /// The time of its first line; empty: it has none. It is read from its begin afterwards.
    std::string first_time();

private:
    struct Close {
        void operator()(gzFile_s* file) const { (void)::gzclose(file); }  // nothing was written
    };
    LogFile(std::string path, UniqueFd file, struct stat const& status)
        : path_(std::move(path)), file_(std::move(file)), device_(status.st_dev), inode_(status.st_ino) {}

    std::string path_;
    UniqueFd file_;                                  // of one that grows
    std::unique_ptr<gzFile_s, Close> rotated_ = {};  // of one that does not
    dev_t device_;
    ino_t inode_;
};

/// The files that had the name `path` after `old` and before `now`, in the order in which they were written. kubelet
/// names them "0.log.20261128-155000", and then "0.log.20261128-155000.gz". They are told apart by the times of their
/// lines. What cannot be read is left out.
std::vector<LogFile> rotated_between(std::string const& path, LogFile const& old, LogFile const& now);

}  // namespace triton::program
