#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/volume/keep/rows.h"
#include "host/volume/work/workbench.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::program {

/// What other threads have to say to the loop.
class Mailbox {
public:
    static Result<std::unique_ptr<Mailbox>> create(EventLoop& loop);
    /// `call` is called by the loop. From any thread.
    void post(std::function<void()> call);

private:
    Mailbox() = default;
    void take();

    std::mutex mutex_;
    std::deque<std::function<void()>> calls_;
    UniqueFd event_;
    EventLoop::Watch watch_;
};

/// A thread with one queue. What it does, it does with something of its own.
class TaskThread {
public:
    /// Errors: as of start_thread().
    Result<> start();
    ~TaskThread();
    void run(std::function<void()> task);

private:
    void go();

    std::mutex mutex_;
    std::condition_variable has_changed_;
    std::deque<std::function<void()>> tasks_;
    bool is_ending_ = false;
    std::thread thread_;
};

/// Writes changes into the database, many in one transaction: all that come while one transaction is being made
/// durable are the next one.
class Keeper {
public:
    using Done = std::function<void(Result<> const&)>;

    Keeper(Mailbox& mailbox, std::string database) : mailbox_(mailbox), path_(std::move(database)) {}
    Result<> start() { return thread_.start(); }
    /// `done` is called by the loop, in the order of these calls.
    void write(std::vector<volume::Change> changes, Done done);
    /// The references of machines, after everything that was written before. `got` is called by the loop.
    using GotReferences = std::function<void(Result<std::vector<volume::ReferenceConfig>> const&)>;
    void read_machine_references(GotReferences got);
    /// Begins a transaction with what waits, unless one is under way: at the end of each round.
    void begin();
    [[nodiscard]] bool is_idle() const { return !is_writing_ && waiting_.empty(); }

private:
    /// The changes of one call, which are made together or not at all.
    struct Request {
        std::vector<volume::Change> changes;
        Done done;
    };
    using Batch = std::vector<Request>;
    Result<> open();
    std::vector<Result<>> write_now(Batch const& batch);

    Mailbox& mailbox_;
    std::string path_;
    Batch waiting_;
    bool is_writing_ = false;
    std::optional<content::Database> database_;  // of the thread
    std::optional<volume::Rows> rows_;           // likewise
    TaskThread thread_;                          // the last: it ends before what it uses
};

/// Threads that do jobs, each with a workbench of its own. They live as long as this: a role dies with the thread that
/// has started it.
class Workers {
public:
    /// Called by a worker. Returns what the loop then does.
    using Task = std::function<std::function<void()>(Result<volume::Workbench>& bench)>;

    /// `stuck_after`: how long a job may give no sign before another thread takes the place of its own.
    Workers(Mailbox& mailbox, volume::Place place, milliseconds stuck_after)
        : mailbox_(mailbox), place_(std::move(place)), stuck_after_(stuck_after) {}
    ~Workers();
    /// Errors: as of start_thread().
    Result<> start(std::size_t count);
    /// `file_system`: what it cannot do without. While a job on it hangs, those that need it wait for that one, so that
    /// the threads are left to the others.
    void run(std::optional<volume::FileSystem> file_system, Task task);
    /// What a task has to say before its end. Called by a worker; it is a sign of its life.
    void tell(std::function<void()> call);

    /// Whether a task runs or waits.
    [[nodiscard]] bool is_busy();
    /// Starts a thread for each that has become stuck, in a call that the kernel does not end: at most `most_stuck` in
    /// all. A stuck one that comes back ends after its task. Returns how many have become stuck. Errors: as of start().
    Result<std::size_t> replace_stuck();
    /// How many are stuck now.
    [[nodiscard]] std::size_t stuck();
    static constexpr std::size_t most_stuck = 8;
    [[nodiscard]] bool has_vault() const { return place_.site.vault.has_value(); }

private:
    /// One thread; all but the thread itself under the mutex.
    struct Worker {
        std::thread thread;
        std::optional<TimePoint> sign;  ///< the last one of its task; none: it has no task
        nanoseconds used{};             ///< of the processor, when that was looked at last; more of it is a sign, too
        bool is_stuck = false;
        bool has_ended = false;
        std::optional<volume::FileSystem> file_system = {};  ///< of its task
    };
    struct Waiting {
        std::optional<volume::FileSystem> file_system;
        Task task;
    };
    void forget_ended();
    std::deque<Waiting>::iterator next_task();
    Result<> start_one();
    void go(Worker& self);
    static thread_local Worker* current_;

    Mailbox& mailbox_;
    volume::Place place_;
    std::mutex mutex_;
    std::condition_variable has_changed_;
    std::deque<Waiting> tasks_;
    bool is_ending_ = false;
    std::vector<std::unique_ptr<Worker>> workers_;
    milliseconds stuck_after_;
};

}  // namespace triton::program
