#include "host/content/verify_job.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/content/role_wait.h"
#include "lib/base/clock.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"

namespace triton::content {

namespace {

using role::RoleProcess;

TimePoint soon() { return steady_now() + role_patience; }

/// How long it may take to read that many bytes from a slow disk.
milliseconds time_for(std::uint64_t bytes) { return role_patience + std::chrono::seconds(bytes >> 20); }

Result<RoleProcess> start(JobSettings const& settings) { return RoleProcess::start(role::Role::verify, settings.role); }

/// Waits for an answer that ends a job. Errors: the role's own; `corrupt` for anything that is not such an answer.
template <class... Answers>
Result<std::variant<Answers...>> decode_answer(RoleProcess& process, std::string_view text) {
    auto message = role::decode<role::Failed, Answers...>(text);
    if (!message) {
        process.kill();
        return std::unexpected(message.error());
    }
    if (auto const* const failed = std::get_if<role::Failed>(&*message)) {
        TRY(process.finish(end_deadline()));
        return std::unexpected(role::error_of(*failed));
    }
    std::optional<std::variant<Answers...>> answer;
    (void)((std::get_if<Answers>(&*message) ? (answer = std::move(std::get<Answers>(*message)), true) : false) || ...);
    return *std::move(answer);
}

std::optional<std::string> fault_of(std::uint64_t size, role::Digest const& digest, role::Expected const& expected) {
    if (size > expected.maximum || (expected.size && size != *expected.size))
        return "the size is not what was asked for";
    if (expected.digest && digest != *expected.digest) return "the digest is not what was asked for";
    return std::nullopt;
}

/// Whether intervals are as the protocol wants them: sorted, apart, not empty, within the maximum.
bool are_orderly(std::vector<role::Interval> const& intervals, std::uint64_t maximum) {
    std::uint64_t end = 0;
    for (role::Interval const& interval : intervals) {
        bool const is_first = &interval == &intervals.front();
        if (interval.length == 0 || interval.offset > maximum || interval.length > maximum - interval.offset)
            return false;
        if (!is_first && interval.offset <= end) return false;
        end = interval.offset + interval.length;
    }
    return true;
}

}  // namespace

namespace {

/// Sends a message. If that fails the verifier has ended, and next() tells why.
template <class Message>
Result<> send_unless_ended(RoleProcess& process, Message const& message, std::span<int const> descriptors = {}) {
    auto sent = role::send(process.channel(), message, soon(), descriptors);
    if (!sent && sent.error().kind == ErrorKind::unavailable) return {};
    return sent;
}

}  // namespace

Result<VerifyJob> VerifyJob::start(JobSettings const& settings, role::Expected const& expected, int file,
                                   std::vector<role::Interval> landed) {
    auto process = TRY(content::start(settings));
    TRY(role::send(process.channel(), role::Receive{expected, std::move(landed)}, soon(), std::span(&file, 1)));
    return VerifyJob(std::move(process), expected);
}

Result<> VerifyJob::add_range(std::uint32_t id, std::uint64_t offset, std::optional<std::uint64_t> length,
                              UniqueFd pipe) {
    int const fd = pipe.get();
    TRY(send_unless_ended(process_, role::Range{id, offset, length}, std::span(&fd, 1)));
    open_ranges_.push_back({id, length.value_or(expected_.maximum - std::min(offset, expected_.maximum))});
    return {};
}

Result<> VerifyJob::end(std::uint64_t size) {
    end_ = size;
    return send_unless_ended(process_, role::End{size});
}

Result<VerifyJob::Event> VerifyJob::next(TimePoint deadline) {
    auto const packet = receive_from(process_, deadline, -1);
    if (!packet && packet.error().kind == ErrorKind::unavailable) return Killed{packet.error().text()};
    if (!packet) return std::unexpected(packet.error());
    auto const answer = TRY((decode_answer<role::Landed, role::RangeEnded, role::Verified>(process_, packet->text)));
    struct Check {
        VerifyJob& job;
        std::optional<std::string> operator()(role::Landed const& landed) const {
            if (!are_orderly(landed.intervals, job.expected_.maximum) || landed.bytes > job.expected_.maximum)
                return "what has landed is not within what was asked for";
            return std::nullopt;
        }
        std::optional<std::string> operator()(role::RangeEnded const& ended) const {
            auto const range = std::ranges::find(job.open_ranges_, ended.id, &OpenRange::id);
            if (range == job.open_ranges_.end()) return "a range has ended that was not there";
            if (ended.received > range->most) return "a range has more than was asked for";
            job.open_ranges_.erase(range);
            return std::nullopt;
        }
        std::optional<std::string> operator()(role::Verified const& verified) const {
            if (!job.end_ || verified.size != *job.end_) return "the size is not what was asked for";
            return fault_of(verified.size, verified.digest, job.expected_);
        }
    };
    if (auto const fault = std::visit(Check{*this}, answer)) return distrust(process_, *fault);
    if (std::holds_alternative<role::Verified>(answer)) TRY(process_.finish(end_deadline()));
    return std::visit([](auto const& event) { return Event(event); }, answer);
}

Result<role::Verified> check_file(JobSettings const& settings, role::Expected const& expected, int source, int file) {
    auto process = TRY(start(settings));
    std::array const fds{source, file};
    TRY(role::send(process.channel(), role::Check{expected}, soon(), fds));
    struct stat status{};
    if (::fstat(source, &status) != 0) return fail(errno, "look at a file");
    TimePoint const deadline = steady_now() + time_for(static_cast<std::uint64_t>(status.st_size));
    role::Packet const packet = TRY(receive_from(process, deadline, settings.cancel));
    auto const answer = TRY((decode_answer<role::Verified>(process, packet.text)));
    auto const& verified = std::get<role::Verified>(answer);
    if (auto const fault = fault_of(verified.size, verified.digest, expected)) return distrust(process, *fault);
    TRY(process.finish(end_deadline()));
    return verified;
}

// Documents.

namespace {

constexpr int all_seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
/// Equal JSON can be at most this many times as long: "\u0001" for one byte.
constexpr std::uint64_t most_growth = 8;

/// Reads what a role has handed over, if the role can no longer change it.
Result<std::string> read_sealed(RoleProcess& process, int fd, std::uint64_t most) {
    struct stat status{};
    if ((::fcntl(fd, F_GET_SEALS) & all_seals) != all_seals) return distrust(process, "the document is not sealed");
    if (::fstat(fd, &status) != 0) return fail(errno, "look at a document");
    if (static_cast<std::uint64_t>(status.st_size) > most) return distrust(process, "the document is too long");
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    for (std::size_t at = 0; at < text.size();) {
        ssize_t const got = ::pread(fd, text.data() + at, text.size() - at, static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail(got < 0 ? errno : EIO, "read a document");
        at += static_cast<std::size_t>(got);
    }
    return text;
}

Result<CheckedDocument> receive_document(RoleProcess& process, role::ReadDocument const& request, TimePoint deadline,
                                         int cancel) {
    role::Packet const packet = TRY(receive_from(process, deadline, cancel, 1));
    auto const answer = TRY((decode_answer<role::CheckedDocument>(process, packet.text)));
    auto const& document = std::get<role::CheckedDocument>(answer);
    if (packet.descriptors.size() != 1) return distrust(process, "the document is missing");
    if (auto const fault = fault_of(document.size, document.digest, request.expected)) return distrust(process, *fault);
    std::string json =
        TRY(read_sealed(process, packet.descriptors.front().get(), most_growth * request.expected.maximum));
    TRY(process.finish(end_deadline()));
    return CheckedDocument{document.digest, document.size, document.media_type, std::move(json)};
}

}  // namespace

Result<DocumentJob> DocumentJob::start(JobSettings const& settings, role::ReadDocument const& request, UniqueFd source,
                                       int file) {
    auto process = TRY(content::start(settings));
    std::array const fds{source.get(), file};
    TRY(role::send(process.channel(), request, soon(), std::span(fds).first(file >= 0 ? 2 : 1)));
    return DocumentJob(std::move(process), request);
}

Result<CheckedDocument> DocumentJob::finish(TimePoint deadline) {
    return receive_document(process_, request_, deadline, -1);
}

Result<CheckedDocument> check_document(JobSettings const& settings, role::ReadDocument const& request, UniqueFd source,
                                       int file, milliseconds patience) {
    auto process = TRY(start(settings));
    std::array const fds{source.get(), file};
    TRY(role::send(process.channel(), request, soon(), std::span(fds).first(file >= 0 ? 2 : 1)));
    source = UniqueFd();
    return receive_document(process, request, steady_now() + patience, settings.cancel);
}

// Signatures.

namespace {

Result<UniqueFd> memory_file(std::string_view text) {
    UniqueFd fd(::memfd_create("triton", MFD_CLOEXEC));
    if (!fd || !write_all(fd.get(), text) || ::lseek(fd.get(), 0, SEEK_SET) != 0)
        return fail(errno, "keep a signature in memory");
    return fd;
}

}  // namespace

Result<role::Signed> check_signature(JobSettings const& settings, SignatureRequest const& request) {
    UniqueFd const signature = TRY(memory_file(request.signature));
    UniqueFd const keys = TRY(memory_file(request.keys));
    UniqueFd const roots = TRY(memory_file(request.roots));
    UniqueFd const sums = request.sums ? TRY(memory_file(*request.sums)) : UniqueFd();
    int const signed_file = request.sums ? sums.get() : request.signed_file;
    auto process = TRY(start(settings));
    std::array const fds{signed_file, signature.get(), keys.get(), roots.get()};
    TRY(role::send(process.channel(), role::CheckSignature{request.kind, request.name, request.digest}, soon(),
                   std::span(fds).first(role::has_roots(request.kind) ? 4 : 3)));
    struct stat status{};
    if (::fstat(signed_file, &status) != 0) return fail(errno, "look at the signed file");
    TimePoint const deadline = steady_now() + time_for(static_cast<std::uint64_t>(status.st_size));
    role::Packet const packet = TRY(receive_from(process, deadline, settings.cancel));
    auto const answer = TRY((decode_answer<role::Signed>(process, packet.text)));
    TRY(process.finish(end_deadline()));
    return std::get<role::Signed>(answer);
}

// Disks.

Result<std::uint64_t> check_disk(JobSettings const& settings, disk::Format format, int file) {
    auto process = TRY(start(settings));
    TRY(role::send(process.channel(), role::ReadDisk{format}, soon(), std::span(&file, 1)));
    role::Packet const packet = TRY(receive_from(process, steady_now() + role_patience, settings.cancel));
    auto const answer = TRY((decode_answer<role::CheckedDisk>(process, packet.text)));
    std::uint64_t const bytes = std::get<role::CheckedDisk>(answer).virtual_bytes;
    if (bytes > disk::largest_disk) return distrust(process, "no disk is that large");
    TRY(process.finish(end_deadline()));
    return bytes;
}

// How it is proved that nobody can write to the file any more.

namespace {

/// A process that another of our threads is starting has copies of all descriptors until its execve(2).
constexpr int most_lease_attempts = 500;
constexpr milliseconds lease_pause{2};

Result<> take_lease(int fd) {
    for (int i = 0; i < most_lease_attempts; ++i) {
        if (::fcntl(fd, F_SETLEASE, F_RDLCK) == 0) return {};
        if (errno != EAGAIN) return fail(errno, "prove that nobody writes to a file");
        (void)::poll(nullptr, 0, static_cast<int>(lease_pause.count()));
    }
    return fail(ErrorKind::busy, "prove that nobody writes to a file", "somebody has it open for writing");
}

}  // namespace

Result<UniqueFd> prove_unwritable(UniqueFd file) {
    std::string const path = "/proc/self/fd/" + std::to_string(file.get());
    UniqueFd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!reader) return fail(errno, "open a verified file again");
    file = UniqueFd();
    TRY(take_lease(reader.get()));
    if (::fcntl(reader.get(), F_SETLEASE, F_UNLCK) != 0) return fail(errno, "give back a lease");
    return reader;
}

}  // namespace triton::content
