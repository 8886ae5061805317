#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/role/process.h"
#include "host/role/verify_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::content {

/// How long a role may be silent where it has nothing to wait for but its own work.
inline constexpr milliseconds role_patience = std::chrono::seconds(30);

/// What every job has in common. `cancel`: a descriptor that becomes readable to give up; -1: none.
struct JobSettings {
    role::RoleSettings role = {};
    int cancel = -1;
};

/// The verification of one file by one triton-verify while it is downloaded. Nothing that it says is believed before
/// next() has checked it against what was asked for.
///
///     auto job = TRY(VerifyJob::start(settings, {.maximum = ..., .size = ..., .digest = ...}, ingest.fd(), landed));
///     TRY(job.add_range(1, 0, size, std::move(pipe_read_end)));
///     ... poll(job.fd()) ... TRY(job.next(now))  // Landed, RangeEnded
///     TRY(job.end(size));
///     ... Verified
class VerifyJob {
public:
    using Event = std::variant<role::Landed, role::RangeEnded, role::Verified>;

    /// `file` is open for reading and writing, and borrowed. Errors: those of RoleProcess::start().
    static Result<VerifyJob> start(JobSettings const& settings, role::Expected const& expected, int file,
                                   std::vector<role::Interval> landed);

    /// One range more; `length` none: until the pipe ends. At most most_ranges at a time.
    Result<> add_range(std::uint32_t id, std::uint64_t offset, std::optional<std::uint64_t> length, UniqueFd pipe);
    /// No further range comes.
    Result<> end(std::uint64_t size);

    /// For poll(2): readable when next() would not wait. Borrowed.
    [[nodiscard]] int fd() { return process_.channel().fd(); }

    /// The next event, up to the deadline. Numbers are in range: intervals are sorted, apart, and within the maximum;
    /// a range's id is one that was added. After Verified the process has ended.
    /// Errors: `timeout`: the deadline; `corrupt` when the bytes are wrong: "size is 4096 bytes instead of 8192", and
    /// when the verifier does not keep to the rules: it is killed then; `unavailable` for a full disk.
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

/// Copies a file (reflinked where that can be) into `file`, which is open for reading and writing and empty, and
/// verifies the copy. Both are borrowed. Errors: as of VerifyJob::next(); `refused`: "cancelled".
Result<role::Verified> check_file(JobSettings const& settings, role::Expected const& expected, int source, int file);

/// A document that was read and checked.
struct CheckedDocument {
    role::Digest digest;
    std::uint64_t size = 0;
    std::string media_type;  ///< what it turned out to be: an index or a manifest of OCI or Docker, ...
    std::string json;        ///< strict JSON that means the same
};

/// `source`: a file or the read end of a pipe, used up. `file`: where its bytes are kept; -1: nowhere. Whoever fills
/// the pipe must do so meanwhile, on another thread or process. Errors: `corrupt` for what is wrong with it, with
/// details; `unsupported`: schema 1; `timeout` after `patience`; `refused`: "cancelled".
Result<CheckedDocument> check_document(JobSettings const& settings, role::ReadDocument const& request, UniqueFd source,
                                       int file = -1, milliseconds patience = role_patience);

/// The same in two steps, for a loop that fills the pipe itself.
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

/// A signature is good when it is by one of the keys and says that the file of this name has this digest.
struct SignatureRequest {
    role::SignatureKind kind = role::SignatureKind::minisign;
    std::string name;  ///< of the file, as its signer knows it
    role::Digest digest;
    int signed_file = -1;   ///< minisign: the file; openpgp-sums: SHA256SUMS. Borrowed
    std::string signature;  ///< its content; empty for sums that are signed inline
    std::string keys;       ///< minisign: public keys, one a line; openpgp-sums: certificates, armored or not
};

/// Errors: `denied` for a signature that is not good, with the reason; `refused`: "cancelled"; `timeout`.
Result<role::Signed> check_signature(JobSettings const& settings, SignatureRequest const& request);

/// Proves that nobody can write to a file that was verified, and keeps it so where the file system can (fs-verity).
/// `file` is the only descriptor that may write to it, and used up. Returns: one that can only read.
/// Errors: `busy`: "somebody has it open for writing"; those of open(2) and fcntl(2).
/// Source: fcntl(2), F_SETLEASE: a read lease is given only when there is no writer.
Result<UniqueFd> prove_unwritable(UniqueFd file);

}  // namespace triton::content
