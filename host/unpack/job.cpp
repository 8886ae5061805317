#include "host/unpack/job.h"

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <new>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <iconv.h>
#include <langinfo.h>
#include <linux/openat2.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include "host/unpack/archive.h"
#include "host/unpack/extractor.h"
#include "host/unpack/stream.h"
#include "lib/base/clock.h"

namespace triton::unpack {

namespace {

constexpr milliseconds patience = std::chrono::seconds(30);
constexpr std::uint32_t deepest = 4096;  // whatever the library allows, since each level is a descriptor
constexpr std::uint64_t memory = std::uint64_t{1} << 30;

struct Work {
    role::Unpack job;
    UniqueFd blob;
    UniqueFd target;
};

Result<Work> take_work(role::Channel& channel) {
    role::Packet packet = TRY(channel.receive(steady_now() + patience, 2));
    auto const message = TRY(role::decode<role::Unpack>(packet.text));
    if (packet.descriptors.size() != 2) return fail(ErrorKind::corrupt, "a job comes with the wrong descriptors");
    Work work{std::get<role::Unpack>(message), std::move(packet.descriptors[0]), std::move(packet.descriptors[1])};
    work.job.limits.depth = std::min(work.job.limits.depth, deepest);
    return work;
}

/// libarchive converts the names of pax archives from UTF-8 to the locale's character set. Into UTF-8 it would also
/// compose their characters, so that two names could become one. Into that of the locale C it cannot convert them, and
/// then takes their bytes unchanged.
void prepare_libraries() {
    ::setlocale(LC_CTYPE, "C");
    // libarchive tries with iconv(3), which reads its tables from files when it is used for the first time.
    iconv_t const converter = ::iconv_open(::nl_langinfo(CODESET), "UTF-8");
    if (converter != reinterpret_cast<iconv_t>(-1)) ::iconv_close(converter);
    (void)::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
    EVP_MD_CTX* const context = ::EVP_MD_CTX_new();
    (void)::EVP_DigestInit_ex(context, EVP_sha256(), nullptr);  // loads what it needs now
    ::EVP_MD_CTX_free(context);
}

class Progress {
public:
    explicit Progress(role::Channel& channel) : channel_(channel) {}
    static void tell(void* self, role::Unpacking const& state) {
        Progress& own = *static_cast<Progress*>(self);
        // If the library is not reading, it gets the next message.
        (void)role::send(own.channel_, state, steady_now());
    }

private:
    role::Channel& channel_;
};

Result<role::Unpacked> run(role::Started& started) {
    Work work = TRY(take_work(started.channel));
    role::Confinement confinement{.role = role::Role::unpack, .root = std::move(work.target), .readable = {}};
    confinement.most_file_bytes = work.job.limits.bytes;
    confinement.most_memory = memory;
    confinement.most_open_files = 2 * work.job.limits.depth + 64;
    TRY(role::confine(std::move(confinement), started));
    UniqueFd const root(open_beneath(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0, 0));
    if (!root) return fail(errno, "open the target");
    Progress progress(started.channel);
    return unpack(work.blob.get(), root.get(), work.job, Progress::tell, &progress);
}

}  // namespace

Result<role::Unpacked> unpack(int blob, int root, role::Unpack const& job,
                              void (*progress)(void* context, role::Unpacking const& state), void* context) {
    Stream stream(blob, job.limits.bytes);
    TRY(stream.start(job.compression));
    Pace pace(root, job.limits);
    auto const archive = TRY(Archive::open(stream, job.limits, pace));
    Extractor extractor(root, job, pace);
    if (progress)
        pace.set_report([&] { progress(context, {stream.bytes_read(), extractor.entries(), stream.bytes()}); });
    for (;;) {
        auto const entry = TRY(archive->next());
        if (!entry) break;
        TRY(extractor.add(*entry, *archive));
    }
    TRY(extractor.finish());
    Stream::End const end = TRY(stream.finish(pace));
    if (job.diff_id && end.diff_id != *job.diff_id)
        return fail(ErrorKind::corrupt, "diffID is " + end.diff_id.text() + " instead of " + job.diff_id->text());
    return role::Unpacked{.entries = extractor.entries(),
                          .bytes = end.bytes,
                          .diff_id = end.diff_id,
                          .skipped_devices = extractor.skipped_devices(),
                          .skipped_attributes = extractor.skipped_attributes(),
                          .has_whiteout_names = extractor.has_whiteout_names()};
}

int run_job(role::Started& started) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    ::umask(0);
    prepare_libraries();
    Result<role::Unpacked> done;
    try {
        done = run(started);
    } catch (std::bad_alloc const&) {
        done = fail(ErrorKind::refused, "it takes more memory than is allowed");
    }
    auto const told = done ? role::send(started.channel, *done, steady_now() + patience)
                           : role::send(started.channel, role::failed(done.error()), steady_now() + patience);
    return told ? 0 : 1;
}

}  // namespace triton::unpack
