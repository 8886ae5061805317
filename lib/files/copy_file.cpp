#include "lib/files/copy_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/new_calls.h"
#include "lib/files/confined_path.h"
#include "lib/files/pending_file.h"
#include "lib/files/sha256.h"

namespace triton::files {

namespace {

constexpr mode_t kept_mode_bits = S_IRWXU | S_IRWXG | S_IRWXO;
constexpr off_t piece_size = 16 << 20;         // a stop is noticed after this many bytes
constexpr std::size_t buffer_size = 64 << 10;  // for read and write: two of them fit into a processor's own cache
constexpr off_t block_unit = 512;              // of st_blocks
constexpr int most_copies = 3;

/// A small file gets a buffer no larger than it needs: there are often thousands, and clearing a large buffer is slow.
std::size_t buffer_size_for(off_t file_size) {
    return static_cast<std::size_t>(std::clamp<off_t>(file_size + 1, 4096, buffer_size));
}

char const* kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "directory";
    if (S_ISFIFO(mode)) return "FIFO";
    if (S_ISSOCK(mode)) return "socket";
    return "device";
}

std::unexpected<Error> not_a_file(std::string const& path, mode_t mode) {
    return fail(ErrorKind::invalid, path + " is a " + kind_of(mode) + ", not a file");
}

ssize_t read_at(int fd, std::span<char> buffer, off_t at) {
    ssize_t size = 0;
    do {
        size = ::pread(fd, buffer.data(), buffer.size(), at);
    } while (size < 0 && errno == EINTR);
    return size;
}

/// Reads as much as the buffer holds, or up to the end of the file.
ssize_t read_fully(int fd, std::span<char> buffer, off_t at) {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
        ssize_t const size = read_at(fd, buffer.subspan(filled), at + static_cast<off_t>(filled));
        if (size < 0) return size;
        if (size == 0) break;
        filled += static_cast<std::size_t>(size);
    }
    return static_cast<ssize_t>(filled);
}

Result<> write_at(int fd, std::string_view bytes, off_t at, std::string const& shown) {
    while (!bytes.empty()) {
        ssize_t const size = ::pwrite(fd, bytes.data(), bytes.size(), at);
        int const err = errno;
        if (size < 0 && err == EINTR) continue;
        if (size < 0) return fail(err, "write " + shown);
        bytes.remove_prefix(static_cast<std::size_t>(size));
        at += size;
    }
    return {};
}

/// Copies the content of one open file to another that is empty.
class Transfer {
public:
    Transfer(Source const& source, PendingFile const& pending, Target const& target, CopySettings const& settings)
        : source_(source),
          to_(pending.fd()),
          target_(target),
          settings_(settings),
          size_(source.status.st_size),
          use_copy_range_(settings.methods.copy_range) {}

    /// Returns false when it was told to stop.
    Result<bool> run() {
        off_t const size = source_.status.st_size;
        if (settings_.methods.reflink && size > 0 && ::ioctl(to_, FICLONE, source_.file.get()) == 0)
            return keep_going(size);
        if (size == 0) return copy_until_end();
        if (!TRY(has_holes() ? copy_data() : copy_range(0, size))) return false;
        return keep_going(size);
    }

    /// The size of the copy, once it is complete.
    [[nodiscard]] off_t size() const { return size_; }

private:
    struct Extent {
        off_t begin;
        off_t end;
    };

    bool keep_going(off_t done) const {
        return !settings_.keep_going || settings_.keep_going(static_cast<std::uint64_t>(done),
                                                             static_cast<std::uint64_t>(source_.status.st_size));
    }

    /// Whether the file takes less room than its size. A compressed file does so without holes, which next_data() finds
    /// out.
    [[nodiscard]] bool has_holes() const { return source_.status.st_blocks < source_.status.st_size / block_unit; }

    Result<bool> copy_data() {
        off_t const size = source_.status.st_size;
        if (::ftruncate(to_, size) != 0) {
            int const err = errno;
            return fail(err, "write " + target_.shown);
        }
        for (off_t at = 0; at < size;) {
            Extent const data = next_data(at);
            if (!TRY(copy_range(data.begin, data.end))) return false;
            at = data.end;
        }
        return true;
    }

    /// The next range from `at` on that is not a hole. A file system without holes says that everything is data.
    Extent next_data(off_t at) const {
        off_t const size = source_.status.st_size;
        off_t const begin = ::lseek(source_.file.get(), at, SEEK_DATA);
        if (begin < 0) return errno == ENXIO ? Extent{size, size} : Extent{at, size};
        off_t const end = ::lseek(source_.file.get(), begin, SEEK_HOLE);
        return {std::min(begin, size), end < 0 ? size : std::min(end, size)};
    }

    Result<bool> copy_range(off_t at, off_t end) {
        while (at < end) {
            if (!keep_going(at)) return false;
            off_t const copied = TRY(copy_piece(at, std::min(piece_size, end - at)));
            if (copied == 0) return end_at(at);
            at += copied;
            // Starts writing early, so that not all of it is left for fsync at the end. Only a hint.
            if (at < end || at > piece_size) (void)::sync_file_range(to_, at - copied, copied, SYNC_FILE_RANGE_WRITE);
        }
        return true;
    }

    /// Ends the copy of a file that is shorter than its size said. Files of /sys always are; for others the comparison
    /// of the status will tell.
    Result<bool> end_at(off_t at) {
        size_ = at;
        if (::ftruncate(to_, at) == 0) return true;
        int const err = errno;
        return fail(err, "write " + target_.shown);
    }

    Result<off_t> copy_piece(off_t at, off_t size) {
        if (use_copy_range_) {
            off_t from = at;
            off_t to = at;
            ssize_t const copied =
                ::copy_file_range(source_.file.get(), &from, to_, &to, static_cast<std::size_t>(size), 0);
            if (copied > 0) return copied;
            // The call does not work between these file systems or under this seccomp profile; a real error comes again
            // at write.
            use_copy_range_ = copied < 0 && errno == EINTR;
        }
        return copy_by_buffer(at, size);
    }

    Result<off_t> copy_by_buffer(off_t at, off_t size) {
        buffer_.resize(buffer_size);
        std::size_t const wanted = std::min(buffer_.size(), static_cast<std::size_t>(size));
        ssize_t const got = read_at(source_.file.get(), std::span(buffer_).first(wanted), at);
        int const err = errno;
        if (got < 0) return fail(err, "read " + source_.shown);
        TRY(write_at(to_, {buffer_.data(), static_cast<std::size_t>(got)}, at, target_.shown));
        return got;
    }

    /// Copies an empty file, or one of /proc or /sys that says that it is empty.
    Result<bool> copy_until_end() {
        for (off_t at = 0;;) {
            if (!keep_going(at)) return false;
            off_t const copied = TRY(copy_by_buffer(at, piece_size));
            if (copied == 0) return true;
            at += copied;
            size_ = at;
        }
    }

    Source const& source_;
    int to_;
    Target const& target_;
    CopySettings const& settings_;
    off_t size_;
    bool use_copy_range_;
    std::vector<char> buffer_;
};

bool same_time(timespec const& a, timespec const& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

bool is_unchanged(struct stat const& before, struct stat const& after) {
    return before.st_size == after.st_size && same_time(before.st_mtim, after.st_mtim) &&
           same_time(before.st_ctim, after.st_ctim);
}

/// The hash of a file; nullopt: it was told to stop.
Result<std::optional<std::string>> hash_of(int fd, off_t file_size, Target const& target, KeepGoing const& keep_going) {
    Sha256 hash;
    std::vector<char> buffer(buffer_size_for(file_size));
    for (off_t at = 0;;) {
        ssize_t const size = read_at(fd, buffer, at);
        int const err = errno;
        if (size < 0) return fail(err, "read " + target.shown);
        if (size == 0) return std::move(hash).take_hex();
        hash.add(std::span(buffer).first(static_cast<std::size_t>(size)));
        at += size;
        if (keep_going && !keep_going(0, 0)) return std::nullopt;
    }
}

/// An existing target, if it is a file of the right size and permission bits that we may read.
struct Existing {
    UniqueFd file;
    struct stat status;
};

std::optional<Existing> find_candidate(Target const& target, off_t size, mode_t mode) {
    if (target.is_new) return std::nullopt;
    struct stat status;
    if (::fstatat(target.directory, target.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
    // Looks before opening, since there may be a device.
    if (!S_ISREG(status.st_mode)) return std::nullopt;
    Existing existing{UniqueFd{::openat(target.directory, target.name.c_str(),
                                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)},
                      {}};
    if (!existing.file || ::fstat(existing.file.get(), &existing.status) != 0) return std::nullopt;
    bool const fits = S_ISREG(existing.status.st_mode) && existing.status.st_size == size &&
                      (existing.status.st_mode & ~static_cast<mode_t>(S_IFMT)) == mode;
    if (!fits) return std::nullopt;
    return existing;
}

struct Comparison {
    enum class Outcome : std::uint8_t { same, different, stopped };
    Outcome outcome = Outcome::different;
    std::string sha256{};  ///< of the same content, where it was asked for
};

/// Compares the contents. Equal times prove nothing, however old: the target may come from another source that was
/// written within the same tick of the clock, or that got its time from rsync or cp -p. Nothing tells which source a
/// target came from.
Comparison compare(Source const& source, Existing const& existing, CopySettings const& settings) {
    using enum Comparison::Outcome;
    Sha256 hash;
    std::vector<char> ours(buffer_size_for(source.status.st_size));
    std::vector<char> theirs(ours.size());
    for (off_t at = 0;;) {
        ssize_t const size = read_fully(source.file.get(), ours, at);
        // A file that cannot be read counts as different; the copy then reports the error.
        if (size < 0 || size != read_fully(existing.file.get(), theirs, at)) return {different};
        if (size == 0) return {same, settings.with_hash ? std::move(hash).take_hex() : ""};
        if (std::memcmp(ours.data(), theirs.data(), static_cast<std::size_t>(size)) != 0) return {different};
        if (settings.with_hash) hash.add(std::span(theirs).first(static_cast<std::size_t>(size)));
        at += size;
        if (settings.keep_going && !settings.keep_going(0, static_cast<std::uint64_t>(source.status.st_size)))
            return {stopped};
    }
}

/// Describes a file that stays or is about to be published.
Result<Staged> finished(Outcome outcome, int fd, off_t size, Target const& target, CopySettings const& settings) {
    Staged staged{outcome, static_cast<std::uint64_t>(size), {}};
    if (!settings.with_hash) return staged;
    auto hash = TRY(hash_of(fd, size, target, settings.keep_going));
    if (!hash) return Staged{};
    staged.sha256 = std::move(*hash);
    return staged;
}

/// Completes a file that has just been written: its mode and times.
Result<Prepared> finish(PendingFile pending, off_t size, mode_t mode, timespec const (&times)[2], Target const& target,
                        CopySettings const& settings) {
    Prepared prepared{TRY(finished(Outcome::copied, pending.fd(), size, target, settings)), std::nullopt};
    if (prepared.staged.outcome == Outcome::stopped) return prepared;
    TRY(pending.finish(mode, times));
    prepared.pending.emplace(std::move(pending));
    return prepared;
}

/// Copies the source; nullopt: it changed meanwhile.
Result<std::optional<Prepared>> copy_once(Source const& source, Target const& target, CopySettings const& settings) {
    auto pending = TRY(PendingFile::create(target.directory, target.name, target.shown,
                                           source.status.st_mode & kept_mode_bits, settings.methods.unnamed_file));
    Transfer transfer(source, pending, target, settings);
    if (!TRY(transfer.run())) return Prepared{};
    struct stat after;
    if (::fstat(source.file.get(), &after) != 0) {
        int const err = errno;
        return fail(err, "read " + source.shown);
    }
    if (!is_unchanged(source.status, after)) return std::nullopt;
    return TRY(finish(std::move(pending), transfer.size(), source.status.st_mode & kept_mode_bits,
                      {source.status.st_atim, source.status.st_mtim}, target, settings));
}

std::string_view next_component(std::string_view& path) {
    std::size_t const slash = path.find('/');
    std::string_view const part = path.substr(0, slash);
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
    return part;
}

/// Makes the missing directories of a path, each inside the open directory before it. Opens them by `open`, which gets
/// that directory, the name, and the path up to and including the name.
template <class Open>
Result<UniqueFd> make_each(UniqueFd current, std::string_view path, Open open) {
    std::string_view const whole = path;
    int err = 0;
    while (current && !path.empty()) {
        std::string const name(next_component(path));
        if (name.empty()) continue;
        bool const is_made = ::mkdirat(current.get(), name.c_str(), 0777) == 0;
        int const made_err = errno;
        if (is_made) {
            UniqueFd const parent{::openat(current.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
            (void)::fsync(parent.get());  // it may be unreadable, though writable: then it is less durable
        }
        // Any error will do: on a read-only file system, or without rights, it is enough that the directory exists.
        current = open(current.get(), name, whole.substr(0, whole.size() - path.size()));
        err = errno;
        if (!current && err == ENOENT && !is_made) err = made_err;
    }
    std::string const attempted = "create directory " + std::string(whole);
    if (!current && err == EXDEV)
        return fail(ErrorKind::refused, attempted, "a symbolic link on the way leads outside");
    if (!current) return fail(err, attempted);
    return current;
}

}  // namespace

Result<struct stat> look_at_source(std::string const& path, std::string_view shown) {
    std::string const name(shown.empty() ? path : shown);
    struct stat status;
    constexpr mode_t for_all = S_IRUSR | S_IRGRP | S_IROTH;
    bool const is_there = ::stat(path.c_str(), &status) == 0;
    if (is_there && !S_ISREG(status.st_mode)) return not_a_file(name, status.st_mode);
    if (is_there && (status.st_mode & for_all) == for_all) return status;
    if (is_there && check_access(AT_FDCWD, path.c_str(), R_OK) == 0) return status;
    int const err = errno;
    return fail(err, "open " + name);
}

Result<Source> open_source(std::string const& path, std::string_view shown) {
    Source source{UniqueFd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)},
                  {},
                  path,
                  std::string(shown.empty() ? path : shown)};
    if (!source.file || ::fstat(source.file.get(), &source.status) != 0) {
        int const err = errno;
        return fail(err, "open " + source.shown);
    }
    if (!S_ISREG(source.status.st_mode)) return not_a_file(source.shown, source.status.st_mode);
    return source;
}

Result<UniqueFd> make_directories(std::string_view path) {
    std::string const whole(path);
    UniqueFd start{::open(path.starts_with('/') ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!start) return fail(errno, "create directory " + whole);
    return make_each(std::move(start), path, [](int current, std::string const& name, std::string_view) {
        return UniqueFd{::openat(current, name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    });
}

Result<UniqueFd> make_directories_beneath(int directory, std::string_view path) {
    std::string const whole(path);
    UniqueFd start{::openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!start) return fail(errno, "create directory " + whole);
    return make_each(std::move(start), path, [directory](int, std::string const&, std::string_view so_far) {
        auto opened = open_beneath(directory, std::string(so_far), O_PATH | O_DIRECTORY);
        if (opened) return std::move(*opened);
        errno = opened.error();
        return UniqueFd{};
    });
}

Result<Prepared> prepare_copy(Source const& source, Target const& target, CopySettings const& settings) {
    Source const* current = &source;
    std::optional<Source> again;
    for (int attempt = 0; attempt < most_copies; ++attempt) {
        mode_t const mode = current->status.st_mode & kept_mode_bits;
        if (auto const existing = find_candidate(target, current->status.st_size, mode)) {
            Comparison found = compare(*current, *existing, settings);
            if (found.outcome == Comparison::Outcome::stopped) return Prepared{};
            if (found.outcome == Comparison::Outcome::same) {
                auto const size = static_cast<std::uint64_t>(existing->status.st_size);
                return Prepared{Staged{Outcome::reused, size, std::move(found.sha256)}, std::nullopt};
            }
        }
        if (auto prepared = TRY(copy_once(*current, target, settings))) return std::move(*prepared);
        (void)TRY(look_at_source(source.path, source.shown));
        again = TRY(open_source(source.path, source.shown));  // a new file may have taken its name, and be complete
        current = &*again;
    }
    return fail(ErrorKind::busy, source.shown + " keeps changing while it is copied");
}

Result<Prepared> prepare_file(std::string_view content, mode_t mode, Target const& target,
                              CopySettings const& settings) {
    mode &= kept_mode_bits;
    if (auto const existing = find_candidate(target, static_cast<off_t>(content.size()), mode)) {
        std::string there(content.size() + 1, '\0');
        ssize_t const size = read_fully(existing->file.get(), there, 0);
        if (size >= 0 && std::string_view(there).substr(0, static_cast<std::size_t>(size)) == content) {
            Staged staged =
                TRY(finished(Outcome::reused, existing->file.get(), existing->status.st_size, target, settings));
            return Prepared{std::move(staged), std::nullopt};
        }
    }
    auto pending =
        TRY(PendingFile::create(target.directory, target.name, target.shown, mode, settings.methods.unnamed_file));
    TRY(write_at(pending.fd(), content, 0, target.shown));
    return finish(std::move(pending), static_cast<off_t>(content.size()), mode, {{0, UTIME_NOW}, {0, UTIME_NOW}},
                  target, settings);
}

Result<Staged> publish(Prepared prepared, bool is_durable) {
    if (prepared.pending) {
        if (!is_durable) TRY(prepared.pending->make_durable());
        TRY(prepared.pending->put_in_place());
    }
    return std::move(prepared.staged);
}

}  // namespace triton::files
