#include "sidecar/agent/hash_pool.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <latch>

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace triton::agent {

namespace {

constexpr std::size_t piece_size = 128 << 10;
constexpr int lower_priority = 10;           // requests and probes are answered by another thread
constexpr std::size_t pieces_in_slice = 64;  // 8 MiB: some 20 ms of a slow processor

std::int64_t wall_time() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::string hex(std::array<unsigned char, EVP_MAX_MD_SIZE> const& bytes, unsigned int size) {
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
        text += "0123456789abcdef"[bytes[i] >> 4];
        text += "0123456789abcdef"[bytes[i] & 15];
    }
    return text;
}

struct FreeDigest {
    void operator()(EVP_MD_CTX* context) const { ::EVP_MD_CTX_free(context); }
};

}  // namespace

struct HashPool::Job {
    Open open;
    UniqueFd file;
    std::shared_ptr<std::atomic<bool> const> is_wanted;
    Done done;
    std::unique_ptr<EVP_MD_CTX, FreeDigest> digest;
    FileKey key;
    std::int64_t begun = 0;
    off_t at = 0;

    Result<> begin() {
        file = TRY(open());
        struct stat status;
        if (::fstat(file.get(), &status) != 0) return fail(errno, "read the file");
        key = FileKey::of(status);
        begun = wall_time();
        digest.reset(::EVP_MD_CTX_new());
        if (!digest || ::EVP_DigestInit_ex(digest.get(), ::EVP_sha256(), nullptr) != 1)
            return fail(ENOMEM, "begin a hash");
        (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // advice
        return {};
    }

    /// Reads one piece. Returns whether the file has more.
    Result<bool> read(std::vector<char>& buffer) {
        ssize_t size = 0;
        do {
            size = ::pread(file.get(), buffer.data(), buffer.size(), at);
        } while (size < 0 && errno == EINTR);
        if (size < 0) return fail(errno, "read the file");
        if (size == 0) return false;
        if (::EVP_DigestUpdate(digest.get(), buffer.data(), static_cast<std::size_t>(size)) != 1)
            return fail(ENOMEM, "hash the file");
        at += size;
        return true;
    }

    Result<FileHash> finish() {
        struct stat status;
        if (::fstat(file.get(), &status) != 0) return fail(errno, "read the file");
        if (FileKey::of(status) != key || static_cast<std::uint64_t>(at) != key.size)
            return fail(ErrorKind::busy, "hash the file", "it changed meanwhile");
        std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
        unsigned int size = 0;
        if (::EVP_DigestFinal_ex(digest.get(), bytes.data(), &size) != 1) return fail(ENOMEM, "hash the file");
        return FileHash{hex(bytes, size), key, HashCache::is_settled(key, begun)};
    }
};

HashPool::HashPool(std::size_t threads) {
    // Returns when all threads run: the caller may take the right to change priorities away afterwards.
    std::latch started(static_cast<std::ptrdiff_t>(threads));
    for (std::size_t i = 0; i < threads; ++i) {
        threads_.emplace_back([this, &started] {
            (void)::setpriority(PRIO_PROCESS, 0, lower_priority);  // of this thread; without it, it is only slower
            started.count_down();
            run();
        });
    }
    started.wait();
}

HashPool::~HashPool() {
    {
        std::lock_guard const lock(mutex_);
        is_stopping_ = true;
    }
    changed_.notify_all();
    threads_.clear();  // waits for them
}

void HashPool::add(Open open, Done done, std::shared_ptr<std::atomic<bool> const> is_wanted) {
    auto job = std::make_unique<Job>();
    job->is_wanted = std::move(is_wanted);
    job->open = std::move(open);
    job->done = std::move(done);
    {
        std::lock_guard const lock(mutex_);
        jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
}

void HashPool::call(std::function<void()> call) {
    {
        std::lock_guard const lock(mutex_);
        calls_.push_back(std::move(call));
    }
    changed_.notify_one();
}

void HashPool::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return is_stopping_ || !calls_.empty() || !jobs_.empty(); });
        if (is_stopping_) return;
        if (!calls_.empty()) {
            auto const call = std::move(calls_.front());
            calls_.pop_front();
            lock.unlock();
            call();
            lock.lock();
            continue;
        }
        auto job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        bool const is_done = work_on(*job);
        if (is_done) job.reset();
        lock.lock();
        if (!is_done) jobs_.push_back(std::move(job));  // nobody to notify, since we look at once
    }
}

bool HashPool::is_wanted_elsewhere() {
    std::lock_guard const lock(mutex_);
    return is_stopping_ || !calls_.empty();
}

bool HashPool::work_on(Job& job) {
    bool const is_begun = job.digest != nullptr;
    if (!is_begun && job.is_wanted && !job.is_wanted->load(std::memory_order_relaxed)) {
        job.done(fail(ErrorKind::refused, "hash the file", "nobody waits for it any longer"));
        return true;
    }
    if (!is_begun) {
        if (auto begun = job.begin(); !begun) {
            job.done(std::unexpected(std::move(begun).error()));
            return true;
        }
    }
    std::vector<char> buffer(piece_size);  // only during a slice, so that an idle agent has none
    for (std::size_t i = 0; i < pieces_in_slice; ++i) {
        if (job.is_wanted && !job.is_wanted->load(std::memory_order_relaxed)) {
            job.done(fail(ErrorKind::refused, "hash the file", "nobody waits for it any longer"));
            return true;
        }
        auto const has_more = job.read(buffer);
        if (has_more && *has_more) {
            if (is_wanted_elsewhere()) return false;
            continue;
        }
        job.done(has_more ? job.finish() : Result<FileHash>(std::unexpected(has_more.error())));
        return true;
    }
    return false;
}

}  // namespace triton::agent
