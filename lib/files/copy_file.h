#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/files/pending_file.h"

namespace triton::files {

/// A file to copy from, open.
struct Source {
    UniqueFd file;
    struct stat status;
    std::string path;   ///< by which it is opened again when it has changed meanwhile
    std::string shown;  ///< what messages call it
};

/// Looks at a file to copy from without opening it: its status, if it is a regular file that we may read, as far as
/// that shows without trying. Follows symbolic links. Errors: those of stat(2) and access(2), "open <path>"; "<path> is
/// a directory, not a file" (EISDIR), "... is a FIFO, not a file" and the like (EINVAL). `shown`: what they call it;
/// empty: as the path.
Result<struct stat> look_at_source(std::string const& path, std::string_view shown = {});

/// Opens it after such a look; opening an unchecked file, perhaps a device, may have effects. Errors: the
/// same.
Result<Source> open_source(std::string const& path, std::string_view shown = {});

/// Opens a directory and creates missing ones on the way, with mode 0777 less the umask. The path is ours: links are
/// followed. Errors: those of mkdirat(2) and openat(2), with the path.
Result<UniqueFd> make_directories(std::string_view path);
/// The same below an open directory (borrowed) that others may write to: nothing is made or opened outside of it.
/// Links are followed as long as they stay inside; where the kernel cannot tell (before Linux 5.6), none is.
/// Errors: as above; `refused` when the path leads outside.
Result<UniqueFd> make_directories_beneath(int directory, std::string_view path);

/// Which ways to copy are tried, best first: all, except in tests of the others.
struct CopyMethods {
    bool reflink = true;
    bool copy_range = true;
    bool unnamed_file = true;
};

/// Called now and then with the bytes that are done and all of them. Returns false to give up.
using KeepGoing = std::function<bool(std::uint64_t done, std::uint64_t all)>;

struct CopySettings {
    KeepGoing keep_going;
    bool with_hash = false;
    CopyMethods methods;
};

/// Where a file is to go. The directory is borrowed.
struct Target {
    int directory;
    std::string name;
    std::string shown;    // its path for messages
    bool is_new = false;  // nothing was there; if something is now, it is replaced
};

enum class Outcome : std::uint8_t {
    copied,
    reused,   ///< the target was there already, as it should be, and was not touched
    stopped,  ///< keep_going said so; the target is as it was
};

struct Staged {
    Outcome outcome = Outcome::stopped;
    std::uint64_t bytes = 0;
    std::string sha256;  ///< of the target, in hexadecimal; empty unless asked for
};

/// A file that is staged, except for its name.
struct Prepared {
    Staged staged;
    std::optional<PendingFile> pending;  ///< when copied: the target to be, whole, for make_durable and put_in_place
};

/// Copies one file so that the target is, at any moment and after a crash, the old file, nothing or the new file whole,
/// once the pending file is made durable and then put in place, in this order. The caller makes the directory durable
/// afterwards. Two that copy to one target at once both succeed.
///
/// Kept: content, holes, permission bits, times. Not kept: owner (as the shipped program), extended attributes, and the
/// bits setuid, setgid and sticky: the copy belongs to our user, often root, in a directory that other
/// containers may write to and run from. A symbolic link at the target is replaced, never followed.
///
/// A target of the same size, permission bits and content is left alone; the content is always compared.
/// Errors: one, naming the file and the cause; the target is as it was and no temporary file is left. EBUSY when the
/// source was written to during each of three attempts.
Result<Prepared> prepare_copy(Source const& source, Target const& target, CopySettings const& settings);

/// The same for a content of our own; the time is now.
Result<Prepared> prepare_file(std::string_view content, mode_t mode, Target const& target,
                              CopySettings const& settings);

/// Puts the pending file in place, if there is one, and before that makes it durable unless it is known to be.
Result<Staged> publish(Prepared prepared, bool is_durable = false);

}  // namespace triton::files
