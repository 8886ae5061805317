#include "host/unpack/job.h"

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <new>
#include <utility>
#include <variant>
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
#include "host/unpack/produce.h"
#include "host/unpack/stream.h"
#include "lib/base/clock.h"

namespace triton::unpack {

namespace {

constexpr milliseconds patience = std::chrono::seconds(30);
constexpr std::uint32_t deepest = 4096;  // whatever the library allows, since each level is a descriptor
constexpr std::size_t most_descriptors = 3;
constexpr std::uint64_t memory = std::uint64_t{1} << 30;

using Job = std::variant<role::Unpack, role::ConvertDisk, role::ResizeDisk, role::MakeSeed>;
using Answer = std::variant<role::Unpacked, role::Produced>;

struct Work {
    Job job;
    std::vector<UniqueFd> descriptors;
};

bool has_right_descriptors(Work const& work) {
    struct Visitor {
        std::size_t count;
        bool operator()(role::Unpack const& /*job*/) const { return count == 2; }
        bool operator()(role::ConvertDisk const& /*job*/) const { return count == 2; }
        bool operator()(role::ResizeDisk const& /*job*/) const { return count == 1; }
        bool operator()(role::MakeSeed const& /*job*/) const { return count == 2 || count == 3; }
    };
    return std::visit(Visitor{work.descriptors.size()}, work.job);
}

Result<Work> take_work(role::Channel& channel) {
    role::Packet packet = TRY(channel.receive(steady_now() + patience, most_descriptors));
    Work work{TRY((role::decode<role::Unpack, role::ConvertDisk, role::ResizeDisk, role::MakeSeed>(packet.text))),
              std::move(packet.descriptors)};
    if (!has_right_descriptors(work)) return fail(ErrorKind::corrupt, "a job comes with the wrong descriptors");
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

Result<Answer> do_job(role::Started& started, role::Unpack job, std::vector<UniqueFd> descriptors) {
    job.limits.depth = std::min(job.limits.depth, deepest);
    role::Confinement confinement{.role = role::Role::unpack, .root = std::move(descriptors[1]), .readable = {}};
    confinement.most_file_bytes = largest_file;
    confinement.most_memory = memory;
    confinement.most_open_files = 2 * job.limits.depth + 64;
    TRY(role::confine(std::move(confinement), started));
    UniqueFd const root(open_beneath(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0, 0));
    if (!root) return fail(errno, "open the target");
    Progress progress(started.channel);
    return unpack(descriptors[0].get(), root.get(), job, Progress::tell, &progress);
}

Result<Answer> do_job(role::Started& started, role::ConvertDisk const& job, std::vector<UniqueFd> descriptors) {
    return convert_disk(started, job, std::move(descriptors));
}

Result<Answer> do_job(role::Started& started, role::ResizeDisk const& job, std::vector<UniqueFd> descriptors) {
    return resize_disk(started, job, std::move(descriptors));
}

Result<Answer> do_job(role::Started& started, role::MakeSeed const& job, std::vector<UniqueFd> descriptors) {
    return make_seed(started, job, std::move(descriptors));
}

Result<Answer> run(role::Started& started) {
    Work work = TRY(take_work(started.channel));
    return std::visit([&](auto& job) { return do_job(started, std::move(job), std::move(work.descriptors)); },
                      work.job);
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
    Result<Answer> done;
    try {
        done = run(started);
    } catch (std::bad_alloc const&) {
        done = fail(ErrorKind::refused, "it takes more memory than is allowed");
    }
    auto const tell = [&started](auto const& message) {
        return role::send(started.channel, message, steady_now() + patience).has_value();
    };
    bool const is_told = done ? std::visit(tell, *done) : tell(role::failed(done.error()));
    return is_told ? 0 : 1;
}

}  // namespace triton::unpack
