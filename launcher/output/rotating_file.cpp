#include "launcher/output/rotating_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/place.h"
#include "lib/base/write_all.h"

namespace triton::launcher {

Result<> RotatingFile::open() {
    auto const place = Place::find(settings().path, Place::LastLink::follow);
    if (!place) return about("open " + settings().path, place.error());
    // O_NONBLOCK: opening a FIFO without a reader is an error, not a wait. It does nothing to a regular file.
    UniqueFd fd = place->open(O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK, settings().mode.value_or(0644));
    int const err = errno;
    if (!fd && err != ENXIO) return fail(err, "open " + settings().path);
    struct stat status;
    if (fd && ::fstat(fd.get(), &status) != 0) return fail(errno, "look at " + settings().path);
    if (!fd || (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode))) {
        std::string reason = "it is not a regular file";
        if (!fd || S_ISFIFO(status.st_mode)) reason += "; without a file, lines go to the launcher's standard output";
        return fail(ErrorKind::invalid, "log to " + settings().path, std::move(reason));
    }
    // Another name may belong to somebody else, who would find our lines and our mode there.
    if (S_ISREG(status.st_mode) && status.st_nlink > 1)
        return fail(ErrorKind::refused, "log to " + settings().path, "the file has other names (hard links)");
    if (S_ISREG(status.st_mode) && settings().mode && (status.st_mode & 07777) != *settings().mode &&
        ::fchmod(fd.get(), *settings().mode) != 0)
        return fail(errno, "set the mode of " + settings().path);
    fd_ = std::move(fd);
    // /dev/stdout may be a regular file, too; but its name there is nobody's to move.
    is_rotated_ = S_ISREG(status.st_mode) && !place->is_of_kernel();
    size_ = static_cast<std::uint64_t>(status.st_size);
    limit_ = settings().max_size;
    file_is_mid_line_ = false;
    return {};
}

/// How much of `text` goes into this file before the next one begins. 0: nothing, and the file is not empty.
std::size_t RotatingFile::part_for_this_file(std::string_view text) const {
    std::uint64_t const room = limit_ > size_ ? limit_ - size_ : 0;
    if (!is_rotated_ || text.size() <= room) return text.size();
    std::size_t const last_end = text.substr(0, room).rfind('\n');
    if (last_end != std::string_view::npos) return last_end + 1;
    if (!file_is_mid_line_ && size_ > 0) return 0;
    std::uint64_t const allowed = limit_ + overshoot > size_ ? limit_ + overshoot - size_ : 0;
    std::size_t const end = text.find('\n', room);
    return std::min<std::uint64_t>(end == std::string_view::npos ? text.size() : end + 1, allowed);
}

Result<> RotatingFile::rotate() {
    // If rotation fails, writing goes on: what is written matters more than where. But not every line is to try again.
    limit_ = std::max(limit_, size_) + std::max<std::uint64_t>(settings().max_size, overshoot);
    auto const place = Place::find_renamable(settings().path);
    if (!place) return about("rotate " + settings().path, place.error());
    auto const numbered = [&place](std::uint32_t number) { return place->name() + "." + std::to_string(number); };
    for (std::uint32_t number = settings().max_files; number > 1; --number) {
        if (!place->rename(numbered(number - 1), numbered(number)) && errno != ENOENT)
            return fail(errno, "rename " + settings().path + "." + std::to_string(number - 1));
    }
    bool const is_moved = settings().max_files > 0 ? place->rename(place->name(), numbered(1)) : place->remove();
    if (!is_moved && errno != ENOENT) return fail(errno, "rotate " + settings().path);
    return open();
}

/// Returns how much was written; when it is less than all, error() is set.
std::size_t RotatingFile::write_through(std::string_view text) {
    std::size_t written = 0;
    std::size_t renames = 0;
    while (written < text.size()) {
        std::string_view const rest = text.substr(written);
        std::size_t part = part_for_this_file(rest);
        if (part == 0 && renames >= most_renames) part = rest.size();
        if (part == 0) {
            renames += settings().max_files + 1;
            // When rotation fails, writing goes on in the old file; a later successful write must not hide that error.
            if (Result<> rotated = rotate(); !rotated)
                rotation_error_ = std::move(rotated.error());
            else
                rotation_error_ = {};
            continue;
        }
        ssize_t const result = write_quietly(fd_.get(), rest.substr(0, part));
        if (result < 0 && errno == EINTR) continue;
        if (result <= 0) {
            int const err = result < 0 ? errno : ENOSPC;
            if (err != error_.code) error_ = fail(err, "write to " + settings().path).error();
            return written;
        }
        written += static_cast<std::size_t>(result);
        size_ += static_cast<std::uint64_t>(result);
        file_is_mid_line_ = text[written - 1] != '\n';
    }
    error_ = {};
    return written;
}

void RotatingFile::write(std::string_view text) {
    if (text.empty()) return;
    is_mid_line_ = text.back() != '\n';
    if (pending() == 0) text.remove_prefix(write_through(text));
    if (text.empty()) return;
    if (written_ > 0) waiting_.erase(0, std::exchange(written_, 0));
    waiting_ += text;
}

void RotatingFile::flush() {
    if (pending() == 0) return;
    written_ += write_through(waiting());
    if (pending() > 0) return;
    waiting_ = {};  // the disk was full once; its memory is not needed again soon
    written_ = 0;
}

void RotatingFile::restore(std::string_view waiting, bool is_mid_line) {
    waiting_.assign(waiting);
    written_ = 0;
    is_mid_line_ = is_mid_line;
    // What waits is the rest of a text, so it may begin in the middle of a line.
    file_is_mid_line_ = is_mid_line && waiting.empty();
}

}  // namespace triton::launcher
