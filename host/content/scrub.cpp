#include <array>
#include <cerrno>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/content/directory_names.h"
#include "host/content/store_state.h"
#include "lib/base/error_kinds.h"
#include "lib/base/start_thread.h"
#include "lib/files/sha256.h"

namespace triton::content {

namespace {

constexpr std::size_t piece = 1 << 20;

// From linux/ioprio.h, of which some versions name a parameter "class": C++ cannot read those.
constexpr int ioprio_who_process = 1;
constexpr int ioprio_idle = 3 << 13;

bool is_cancelled(int cancel) {
    pollfd waited{.fd = cancel, .events = POLLIN, .revents = 0};
    return cancel >= 0 && ::poll(&waited, 1, 0) > 0;
}

/// Makes this thread work only when nobody else wants the processor or the disk.
void become_idle() {
    sched_param const none{};
    // If either fails, the scrub disturbs others, but still works.
    (void)::sched_setscheduler(0, SCHED_IDLE, &none);
    (void)::syscall(SYS_ioprio_set, ioprio_who_process, 0, ioprio_idle);
}

struct Hashed {
    std::string hex;
    std::uint64_t bytes = 0;
};

Result<Hashed> hash_file(int fd, std::string const& shown, int cancel) {
    std::vector<char> buffer(piece);
    files::Sha256 hash;
    Hashed hashed;
    for (;;) {
        if (is_cancelled(cancel)) return fail(ErrorKind::refused, "cancelled");
        ssize_t const got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, "read " + shown);
        if (got == 0) break;
        hash.add(std::span(buffer).first(static_cast<std::size_t>(got)));
        // Pages that are read only once must not push out those that others use.
        (void)::posix_fadvise(fd, static_cast<off_t>(hashed.bytes), got, POSIX_FADV_DONTNEED);
        hashed.bytes += static_cast<std::uint64_t>(got);
    }
    hashed.hex = std::move(hash).take_hex();
    return hashed;
}

/// Hashes in a separate thread, because a lowered priority cannot always be raised again.
Result<Hashed> hash_when_idle(int fd, std::string const& shown, int cancel) {
    std::optional<Result<Hashed>> hashed;
    std::thread hashing = TRY(start_thread([&] {
        become_idle();
        hashed = hash_file(fd, shown, cancel);
    }));
    hashing.join();
    return *std::move(hashed);
}

/// Whether it says something about the blob: that it cannot be read, or is something else. A lack of descriptors,
/// memory or threads says nothing about it, and a good blob must not be lost for that.
bool is_about_the_blob(Error const& error) {
    return !is_shortage(error.kind) && error.kind != ErrorKind::refused && error.kind != ErrorKind::denied;
}

UniqueFd open_file(StoreState const& state, std::string const& hex) {
    return UniqueFd(::openat(state.blobs.get(), hex.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
}

/// Whether the name still stands for what was looked at: an open file, or one that cannot be opened. Since then, a good
/// one may have taken its place.
Result<bool> is_still_there(StoreState const& state, std::string const& hex, UniqueFd const& file) {
    return file ? is_still(state.blobs.get(), hex, file.get()) : !open_file(state, hex);
}

/// Opens a file, and returns why it is bad; none when it is good. Errors: `refused`: "cancelled"; those of the system,
/// as long as they do not mean that this file is bad.
Result<std::optional<std::string>> fault_of_blob(StoreState const& state, std::string const& hex,
                                                 std::optional<std::uint64_t> size, UniqueFd& file,
                                                 std::uint64_t& bytes, int cancel) {
    file = open_file(state, hex);
    if (!file) {
        int const err = errno;
        Error failure = fail(err, "open blob " + hex).error();
        // A link is not a blob either.
        if (err == ELOOP || is_about_the_blob(failure)) return "it cannot be opened: " + failure.reason;
        return std::unexpected(std::move(failure));
    }
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return fail(errno, "look at blob " + hex);
    if (!S_ISREG(status.st_mode)) return "it is not a file";
    bytes = static_cast<std::uint64_t>(status.st_size);
    if (size && bytes != *size) return "it has " + std::to_string(bytes) + " bytes, not " + std::to_string(*size);
    auto const hashed = hash_when_idle(file.get(), "blob " + hex, cancel);
    if (!hashed && !is_about_the_blob(hashed.error())) return std::unexpected(hashed.error());
    if (!hashed) return hashed.error().text();
    if (hashed->hex != hex) return "its SHA-256 is " + hashed->hex;
    return std::nullopt;
}

Result<bool> has_row(Database& database, Digest const& digest) {
    Statement row = TRY(database.query("SELECT 1 FROM blobs WHERE digest = ?", digest.text()));
    return row.step();
}

}  // namespace

Result<> Store::scrub(std::function<bool(Scrubbed const&)> const& call, int cancel) {
    TRY(expect_no_transaction(*state_));
    TRY(state_->database.check());
    std::vector<std::pair<std::string, std::optional<std::uint64_t>>> all;
    std::vector<Scrubbed> still_bad;
    for (Blob& blob : TRY(list())) {
        if (blob.quarantined.empty())
            all.emplace_back(blob.digest.hex(), blob.size);
        else
            still_bad.push_back({.digest = blob.digest, .fault = std::move(blob.quarantined)});
    }
    for (Scrubbed& scrubbed : still_bad) {
        scrubbed.owners = TRY(owners(scrubbed.digest));
        if (!scrubbed.owners.empty() && !call(scrubbed)) return {};
    }
    for (std::string const& name : TRY(directory_names(state_->blobs.get(), state_->path + "/blobs/sha256"))) {
        auto const digest = Digest::of_hex(name);
        if (!digest) continue;  // its author knows what it is, and we do not use it
        if (!TRY(has_row(state_->database, *digest))) all.emplace_back(name, std::nullopt);
    }
    for (auto const& [hex, size] : all) {
        auto const digest = TRY(Digest::of_hex(hex));
        Scrubbed scrubbed{.digest = digest};
        UniqueFd file;
        scrubbed.fault = TRY(fault_of_blob(*state_, hex, size, file, scrubbed.bytes, cancel));
        FileLock const lock = TRY(exclusive(*state_));
        if (TRY(has_row(state_->database, scrubbed.digest)) != size.has_value()) continue;  // collected meanwhile, or come
        if (!TRY(is_still_there(*state_, hex, file))) continue;
        if (scrubbed.fault) {
            scrubbed.owners = TRY(owners(scrubbed.digest));
            TRY(quarantine_file(*state_, hex, *scrubbed.fault));
        } else if (!size) {
            Transaction transaction = TRY(state_->database.begin());
            TRY(insert_blob(*state_, scrubbed.digest.text(), scrubbed.bytes, {.source = "found by scrub"}));
            TRY(transaction.commit());
        }
        if (!call(scrubbed)) break;
    }
    return {};
}

}  // namespace triton::content
