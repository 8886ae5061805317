#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/disk/disk.h"
#include "host/role/process.h"
#include "host/role/verify_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::content {

/// How long a role may be silent while it waits for nothing but its own work.
inline constexpr milliseconds role_patience = std::chrono::seconds(30);

/// What all jobs have in common. `cancel`: a descriptor that becomes readable when we are to give up; -1: none.
struct JobSettings {
    role::RoleSettings role = {};
    int cancel = -1;
};

/// The verification of one file by one triton-verify while the file is downloaded. Nothing that the verifier says is
/// believed before next() has checked it against what was asked for.
///
///     auto job = TRY(VerifyJob::start(settings, {.maximum = ..., .size = ..., .digest = ...}, ingest.fd(), landed));
///     TRY(job.add_range(1, 0, size, std::move(pipe_read_end)));
///     ... poll(job.fd()) ... TRY(job.next(now))  // Landed, RangeEnded
///     TRY(job.end(size));
///     ... Verified
class VerifyJob {
public:
    /// The verifier was killed from outside: "triton-verify was killed by SIGKILL". This says nothing about the bytes.
    struct Killed {
        std::string how;
    };
    using Event = std::variant<role::Landed, role::RangeEnded, role::Verified, Killed>;

    /// `file` is open for reading and writing, and borrowed. Errors: those of RoleProcess::start().
    static Result<VerifyJob> start(JobSettings const& settings, role::Expected const& expected, int file,
                                   std::vector<role::Interval> landed);

    /// Adds a range; without `length` it lasts until the pipe ends. At most most_ranges at a time.
    Result<> add_range(std::uint32_t id, std::uint64_t offset, std::optional<std::uint64_t> length, UniqueFd pipe);
    /// Says that no further range will be added.
    Result<> end(std::uint64_t size);

    /// For poll(2): readable when next() would not wait. Borrowed.
    [[nodiscard]] int fd() { return process_.channel().fd(); }

    /// The next event, up to the deadline. Its numbers are in range: intervals are sorted, apart, and within the
    /// maximum; the id of a range was added. After Verified and Killed the process has ended.
    /// Errors: `timeout`: the deadline; `corrupt` when the bytes are wrong: "size is 4096 bytes instead of 8192", or
    /// when the verifier breaks the rules, and is then killed; `exhausted` for a full disk.
    Result<Event> next(TimePoint deadline);

private:
    VerifyJob(role::RoleProcess process, role::Expected expected)
        : process_(std::move(process)), expected_(std::move(expected)) {}
    role::RoleProcess process_;
    role::Expected expected_;
    struct OpenRange {
        std::uint32_t id;
        std::uint64_t most;  // bytes
    };
    std::vector<OpenRange> open_ranges_;
    std::optional<std::uint64_t> end_;
};

/// Copies a file (by reflink where possible) into `file`, which is open for reading and writing and empty, and verifies
/// the copy. Both are borrowed. Errors: as of VerifyJob::next(); `refused`: "cancelled".
Result<role::Verified> check_file(JobSettings const& settings, role::Expected const& expected, int source, int file);

/// A document that was read and checked.
struct CheckedDocument {
    role::Digest digest;
    std::uint64_t size = 0;
    std::string media_type;  ///< its real type: an index or a manifest of OCI or Docker, ...
    std::string json;        ///< the same content as strict JSON
};

/// Reads and checks a document. `source`: a file or the read end of a pipe; it is used up. `file`: keeps the bytes; -1:
/// nothing does. A pipe must be filled meanwhile by another thread or process.
/// Errors: `corrupt` for a bad document, with details; `unsupported`: schema 1; `timeout` after `patience`; `refused`:
/// "cancelled".
Result<CheckedDocument> check_document(JobSettings const& settings, role::ReadDocument const& request, UniqueFd source,
                                       int file = -1, milliseconds patience = role_patience);

/// Does the same in two steps, for a loop that fills the pipe itself.
class DocumentJob {
public:
    static Result<DocumentJob> start(JobSettings const& settings, role::ReadDocument const& request, UniqueFd source,
                                     int file = -1);
    [[nodiscard]] int fd() { return process_.channel().fd(); }
    /// Errors: as of check_document().
    Result<CheckedDocument> finish(TimePoint deadline);

private:
    DocumentJob(role::RoleProcess process, role::ReadDocument request)
        : process_(std::move(process)), request_(std::move(request)) {}
    role::RoleProcess process_;
    role::ReadDocument request_;
};

/// A signature is good when one of the keys has made it, and it says that the file of this name has this digest.
struct SignatureRequest {
    role::SignatureKind kind = role::SignatureKind::minisign;
    std::string name;  ///< of the file, as its signer knows it
    role::Digest digest;
    int signed_file = -1;                  ///< the file. Borrowed
    std::optional<std::string> sums = {};  ///< openpgp-sums: the content of SHA256SUMS, unless that is the file
    std::string signature;                 ///< its content; empty for sums that are signed inline
    std::string keys;  ///< minisign: public keys, one a line; OpenPGP: certificates, armored or not; X.509: in PEM
    std::string roots = {};  ///< of X.509: the certificates that are trusted by themselves, in PEM
};

/// Errors: `denied` for a signature that is not good, with the reason; `refused`: "cancelled"; `timeout`.
Result<role::Signed> check_signature(JobSettings const& settings, SignatureRequest const& request);

/// Has the header of a disk image read. `file` is borrowed. Returns the size of the disk that a machine would see.
/// Errors: `invalid`: it is not an image of that format, names another file, or is encrypted; `refused`: "cancelled".
Result<std::uint64_t> check_disk(JobSettings const& settings, disk::Format format, int file);

/// Proves that nobody can write to a verified file, and makes sure of that where the file system can (fs-verity).
/// `file` is the only descriptor that may write to it; it is used up. Returns one that can only read.
/// Errors: `busy`: "somebody has it open for writing"; those of open(2) and fcntl(2).
/// Source: fcntl(2), F_SETLEASE: a read lease is given only when there is no writer.
Result<UniqueFd> prove_unwritable(UniqueFd file);

}  // namespace triton::content
