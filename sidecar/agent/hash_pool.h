#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "sidecar/agent/hash_cache.h"

namespace triton::agent {

/// The data of a file, from its first byte to its last.
struct FileHash {
    std::string sha256;       ///< lower-case hexadecimal
    FileKey key;              ///< of the content that was hashed
    bool is_settled = false;  ///< whether it may be kept: see HashCache::is_settled()
};

/// A few threads that hash files. They take turns: after each slice of a file the next file waiting gets one, so that a
/// small file is never behind the whole of a large one.
class HashPool {
public:
    /// Called once for each file, in a thread of the pool.
    /// Errors: those of read(2); busy when the file changed while it was read; refused when it is no longer wanted.
    using Done = std::function<void(Result<FileHash>)>;
    /// Opens the file, in a thread of the pool. What it cannot open has its error for a result.
    using Open = std::function<Result<UniqueFd>()>;

    /// Starts the threads, which give way to whatever else wants a processor; the destructor ends them within a piece
    /// of 128 kB and drops what waits.
    explicit HashPool(std::size_t threads);
    ~HashPool();
    HashPool(HashPool const&) = delete;
    HashPool& operator=(HashPool const&) = delete;

    /// The file is read from its beginning, whatever its position. Once `is_wanted` is false nothing more is read;
    /// null: it is wanted to the end.
    void add(Open open, Done done, std::shared_ptr<std::atomic<bool> const> is_wanted = nullptr);

    /// Calls it in a thread of the pool, before any thread hashes a further piece: for short questions to a file system
    /// that may hang.
    void call(std::function<void()> call);

private:
    struct Job;
    void run();
    bool work_on(Job& job);  // whether it is done
    bool is_wanted_elsewhere();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> calls_;
    std::deque<std::unique_ptr<Job>> jobs_;
    bool is_stopping_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace triton::agent
