#include "host/verify/job.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/disk/disk.h"
#include "host/role/sums.h"
#include "host/verify/copier.h"
#include "host/verify/document.h"
#include "host/verify/hash.h"
#include "host/verify/minisign.h"
#include "host/verify/openpgp.h"
#include "host/verify/read_to_end.h"
#include "host/verify/receiver.h"
#include "host/verify/x509.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"

namespace triton::verify {

namespace {

using role::Packet;
using Job = std::variant<role::Receive, role::Check, role::ReadDocument, role::CheckSignature, role::ReadDisk>;

constexpr milliseconds patience = std::chrono::seconds(30);
constexpr std::size_t most_descriptors_of_job = 4;
constexpr std::uint64_t largest_small_file = 4 << 20;
constexpr std::uint64_t memory = std::uint64_t{1} << 30;

TimePoint soon() { return std::chrono::steady_clock::now() + patience; }

/// What the library hands over with a job; the number of descriptors has been checked.
struct Work {
    Job job;
    std::vector<UniqueFd> descriptors;
    UniqueFd json = {};  ///< a memfd for the document as JSON; the sandbox has no memfd_create(2)
    UniqueFd& descriptor(std::size_t at) { return descriptors[at]; }
};

struct DescriptorCount {
    std::size_t least;
    std::size_t most;
};
DescriptorCount descriptors_of(Job const& job) {
    struct Visitor {
        DescriptorCount operator()(role::Receive const& /*job*/) const { return {1, 1}; }
        DescriptorCount operator()(role::Check const& /*job*/) const { return {2, 2}; }
        DescriptorCount operator()(role::ReadDocument const& /*job*/) const { return {1, 2}; }
        DescriptorCount operator()(role::CheckSignature const& job) const {
            std::size_t const count = role::has_roots(job.kind) ? 4 : 3;
            return {count, count};
        }
        DescriptorCount operator()(role::ReadDisk const& /*job*/) const { return {1, 1}; }
    };
    return std::visit(Visitor{}, job);
}

Result<Work> take_work(role::Channel& channel) {
    Packet packet = TRY(channel.receive(soon(), most_descriptors_of_job));
    Job job = TRY((role::decode<role::Receive, role::Check, role::ReadDocument, role::CheckSignature, role::ReadDisk>(
        packet.text)));
    DescriptorCount const count = descriptors_of(job);
    if (packet.descriptors.size() < count.least || packet.descriptors.size() > count.most)
        return fail(ErrorKind::corrupt, "a job comes with the wrong descriptors");
    return Work{std::move(job), std::move(packet.descriptors)};
}

/// The limits of a job: the size of its files and its memory.
Result<role::Confinement> confinement_for(Work& work) {
    role::Confinement confinement{.role = role::Role::verify, .most_memory = memory};
    if (auto const* const receive = std::get_if<role::Receive>(&work.job))
        confinement.most_file_bytes = receive->expected.maximum;
    if (auto const* const check = std::get_if<role::Check>(&work.job))
        confinement.most_file_bytes = check->expected.maximum;
    // a memfd is a file, and may hold a longer text than the document: "\u0000" for one byte
    if (std::holds_alternative<role::ReadDocument>(work.job)) confinement.most_file_bytes = 8 * largest_document;
    if (std::holds_alternative<role::CheckSignature>(work.job))
        confinement.most_memory += TRY(size_of_file(work.descriptor(0).get()));
    return confinement;
}

// The jobs. Each returns its last answer, or why there is none.

Result<> answer(role::Channel& channel, auto const& message, std::span<int const> descriptors = {}) {
    return role::send(channel, message, soon(), descriptors);
}

Result<> do_job(role::Channel& channel, role::Receive const& job, Work& work) {
    Receiver receiver(channel, job, std::move(work.descriptor(0)));
    return answer(channel, TRY(receiver.run()));
}

Result<> do_job(role::Channel& channel, role::Check const& job, Work& work) {
    return answer(channel, TRY(copy_and_check(work.descriptor(0).get(), work.descriptor(1).get(), job.expected)));
}

/// Writes a memfd that nobody can change any more.
Result<> write_sealed(int memfd, std::string_view text) {
    if (!write_all(memfd, text)) return fail(errno, "keep the document");
    if (::fcntl(memfd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return fail(errno, "seal the document");
    return {};
}

Result<> keep(int file, std::string_view text) {
    if (::ftruncate(file, 0) != 0 || ::lseek(file, 0, SEEK_SET) != 0 || !write_all(file, text) || ::fsync(file) != 0)
        return fail(errno, "write the document");
    return {};
}

Result<> do_job(role::Channel& channel, role::ReadDocument const& job, Work& work) {
    std::uint64_t const maximum =
        std::min({job.expected.maximum, largest_document, job.expected.size.value_or(UINT64_MAX)});
    std::string const text = TRY(read_to_end(work.descriptor(0).get(), maximum));
    Fingerprint fingerprint(job.expected.sha1.has_value());
    fingerprint.add(text);
    role::Verified const verified = TRY(std::move(fingerprint).check(job.expected));
    Document const document = TRY(read_document(text, job));
    if (work.descriptors.size() == 2) TRY(keep(work.descriptor(1).get(), text));
    TRY(write_sealed(work.json.get(), document.json));
    int const fd = work.json.get();
    return answer(
        channel,
        role::CheckedDocument{.size = verified.size, .digest = verified.digest, .media_type = document.media_type},
        std::span(&fd, 1));
}

/// A mapped file. It must not become shorter meanwhile, which would end this process.
class Mapping {
public:
    static Result<Mapping> of(int file) {
        std::uint64_t const size = TRY(size_of_file(file));
        if (size == 0) return Mapping(nullptr, 0);
        void* const memory_of_file = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
        if (memory_of_file == MAP_FAILED) return fail(errno, "map the signed file");
        return Mapping(memory_of_file, size);
    }
    Mapping(Mapping&& other) noexcept : start_(std::exchange(other.start_, nullptr)), size_(other.size_) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping() {
        if (start_) ::munmap(start_, size_);
    }
    [[nodiscard]] std::span<char const> bytes() const { return {static_cast<char const*>(start_), size_}; }

private:
    Mapping(void* start, std::size_t size) : start_(start), size_(size) {}
    void* start_;
    std::size_t size_;
};

Result<> check_content(std::span<char const> content, role::Digest const& digest) {
    Hash hash(Hash::Algorithm::sha256);
    hash.add(content);
    std::string const hex = std::move(hash).take_hex();
    if (hex != digest.hex()) return fail(ErrorKind::denied, "signature is for other content: sha256:" + hex);
    return {};
}

Result<role::Signed> check_signed_file(role::CheckSignature const& job, Work& work) {
    Mapping const content = TRY(Mapping::of(work.descriptor(0).get()));
    std::string const signature = TRY(read_to_end(work.descriptor(1).get(), largest_small_file));
    std::string const keys = TRY(read_to_end(work.descriptor(2).get(), largest_small_file));
    role::Signed by = TRY(check_minisign(content.bytes(), signature, keys));
    if (!names_file(by.comment, job.signed_name))
        return fail(ErrorKind::denied,
                    "signature is for another file: its trusted comment does not say file:" + job.signed_name);
    TRY(check_content(content.bytes(), job.digest));
    return by;
}

Result<role::Signed> check_certified(role::CheckSignature const& job, Work& work) {
    std::string const signature = TRY(read_to_end(work.descriptor(1).get(), largest_small_file));
    std::string const signers = TRY(read_to_end(work.descriptor(2).get(), largest_small_file));
    std::string const roots = TRY(read_to_end(work.descriptor(3).get(), largest_small_file));
    Certificates const certificates{.signers = signers, .roots = roots};
    if (job.kind == role::SignatureKind::x509) return check_bare_signature(job.digest, signature, certificates);
    role::Signed by = TRY(check_cms(work.descriptor(0).get(), signature, certificates));
    Mapping const content = TRY(Mapping::of(work.descriptor(0).get()));
    TRY(check_content(content.bytes(), job.digest));
    return by;
}

Result<> do_job(role::Channel& channel, role::CheckSignature const& job, Work& work) {
    switch (job.kind) {
        case role::SignatureKind::minisign: return answer(channel, TRY(check_signed_file(job, work)));
        case role::SignatureKind::cms:
        case role::SignatureKind::x509: return answer(channel, TRY(check_certified(job, work)));
        case role::SignatureKind::openpgp:
        case role::SignatureKind::openpgp_sums: break;  // handled before the sandbox closes
    }
    return fail(ErrorKind::internal, "a signature is checked too late");
}

/// The image that a job has been handed.
class OpenFile final : public disk::Bytes {
public:
    OpenFile(int file, std::uint64_t size) : file_(file), size_(size) {}
    [[nodiscard]] std::uint64_t size() const override { return size_; }
    Result<std::string> read_within(std::uint64_t offset, std::size_t length) override {
        std::string bytes(length, '\0');
        for (std::size_t at = 0; at < length;) {
            ssize_t const got = ::pread(file_, bytes.data() + at, length - at, static_cast<off_t>(offset + at));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return fail(got < 0 ? errno : EIO, "read the header of a disk");
            at += static_cast<std::size_t>(got);
        }
        return bytes;
    }

private:
    int file_;
    std::uint64_t size_;
};

Result<> do_job(role::Channel& channel, role::ReadDisk const& job, Work& work) {
    int const file = work.descriptor(0).get();
    OpenFile bytes(file, TRY(size_of_file(file)));
    disk::Facts const facts = TRY(disk::read_header(job.format, bytes));
    return answer(channel, role::CheckedDisk{facts.virtual_bytes});
}

/// Checks OpenPGP signatures by a program that we execute, which has its own sandbox; what it confirms is read here.
Result<> check_openpgp(role::Started& started, role::CheckSignature const& job, Work& work) {
    if (job.kind == role::SignatureKind::openpgp) {
        std::string key = TRY(check_detached(started, work.descriptors));
        Mapping const content = TRY(Mapping::of(work.descriptor(0).get()));
        TRY(check_content(content.bytes(), job.digest));
        return answer(started.channel, role::Signed{.key = std::move(key), .comment = ""});
    }
    SignedSums const sums = TRY(check_sums(started, work.descriptors));
    role::Digest const digest = TRY(role::find_sum(sums.text, job.signed_name));
    if (digest != job.digest)
        return fail(ErrorKind::denied, "signed sums give " + json::quoted(job.signed_name) + " the digest " +
                                           digest.text() + " instead of " + job.digest.text());
    return answer(started.channel, role::Signed{.key = sums.key, .comment = ""});
}

Result<> run(role::Started& started) {
    Work work = TRY(take_work(started.channel));
    auto const* const signature = std::get_if<role::CheckSignature>(&work.job);
    bool const executes = signature && (signature->kind == role::SignatureKind::openpgp_sums ||
                                        signature->kind == role::SignatureKind::openpgp);
    if (executes) return check_openpgp(started, *signature, work);
    if (std::holds_alternative<role::ReadDocument>(work.job)) {
        work.json = UniqueFd(::memfd_create("document", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        if (!work.json) return fail(errno, "make room for the document");
    }
    role::Confinement confinement = TRY(confinement_for(work));
    TRY(role::confine(std::move(confinement), started));
    return std::visit([&](auto const& job) { return do_job(started.channel, job, work); }, work.job);
}

}  // namespace

int run_job(role::Started& started) {
    // A file that would exceed its limit must cause an error of write(2), not a signal.
    ::signal(SIGXFSZ, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    Result<> done;
    try {
        prepare_openssl();
        done = run(started);
    } catch (std::bad_alloc const&) {
        done = fail(ErrorKind::refused, "it takes more memory than is allowed");
    }
    if (done) return 0;
    return role::send(started.channel, role::failed(done.error()), soon()) ? 0 : 1;
}

}  // namespace triton::verify
