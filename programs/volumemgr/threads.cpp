#include "programs/volumemgr/threads.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <utility>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "host/volume/keep/uses.h"
#include "lib/base/start_thread.h"

namespace triton::program {

Result<std::unique_ptr<Mailbox>> Mailbox::create(EventLoop& loop) {
    std::unique_ptr<Mailbox> mailbox(new Mailbox());
    mailbox->event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!mailbox->event_) return fail(errno, "make an eventfd");
    mailbox->watch_ = TRY(loop.on_readable(mailbox->event_.get(), [box = mailbox.get()] { box->take(); }));
    return mailbox;
}

void Mailbox::post(std::function<void()> call) {
    {
        std::lock_guard const lock(mutex_);
        calls_.push_back(std::move(call));
    }
    std::uint64_t const one = 1;
    (void)!::write(event_.get(), &one, sizeof one);  // a full counter is readable, too
}

void Mailbox::take() {
    std::uint64_t count = 0;
    (void)!::read(event_.get(), &count, sizeof count);  // whatever it was, the queue is looked at
    std::deque<std::function<void()>> calls;
    {
        std::lock_guard const lock(mutex_);
        calls.swap(calls_);
    }
    for (auto const& call : calls)
        call();
}

Result<> TaskThread::start() {
    thread_ = TRY(start_thread([this] { go(); }));
    return {};
}

TaskThread::~TaskThread() {
    {
        std::lock_guard const lock(mutex_);
        is_ending_ = true;
    }
    has_changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void TaskThread::run(std::function<void()> task) {
    {
        std::lock_guard const lock(mutex_);
        tasks_.push_back(std::move(task));
    }
    has_changed_.notify_one();
}

void TaskThread::go() {
    for (;;) {
        std::function<void()> task;
        {
            std::unique_lock lock(mutex_);
            has_changed_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
            if (tasks_.empty()) return;
            task = std::move(tasks_.front());
            tasks_.pop_front();
        }
        task();
    }
}

void Keeper::write(std::vector<volume::Change> changes, Done done) {
    waiting_.push_back({std::move(changes), std::move(done)});
}

void Keeper::begin() {
    if (is_writing_ || waiting_.empty()) return;
    is_writing_ = true;
    auto batch = std::make_shared<Batch>(std::exchange(waiting_, {}));
    thread_.run([this, batch] {
        mailbox_.post([this, batch, written = write_now(*batch)] {
            is_writing_ = false;
            for (std::size_t i = 0; i < batch->size(); ++i)
                (*batch)[i].done(written[i]);
        });
    });
}

void Keeper::read_machine_references(GotReferences got) {
    thread_.run([this, got = std::move(got)] {
        auto const opened = open();
        auto found =
            opened ? volume::references_of(*database_, volume::machine_publisher) : std::unexpected(opened.error());
        mailbox_.post([got, found = std::move(found)] { got(found); });
    });
}

Result<> Keeper::open() {
    if (rows_) return {};
    database_.emplace(TRY(content::Database::open(path_)));
    rows_ = TRY(volume::Rows::open(*database_));
    return {};
}

/// One result for each request.
std::vector<Result<>> Keeper::write_now(Batch const& batch) {
    std::vector<volume::Change> all;
    for (Request const& request : batch)
        all.insert(all.end(), request.changes.begin(), request.changes.end());
    auto const opened = open();
    Result<> const together = opened ? rows_->apply(all) : opened;
    bool const is_refused = !together && together.error().kind == ErrorKind::refused;
    if (!is_refused || batch.size() == 1) return std::vector<Result<>>(batch.size(), together);
    // A volume that a machine has just taken must not keep the other requests from being saved.
    std::vector<Result<>> written;
    for (Request const& request : batch)
        written.push_back(rows_->apply(request.changes));
    return written;
}

namespace {

nanoseconds used_by(std::thread& thread) {
    clockid_t clock{};
    timespec used{};
    bool const is_known =
        ::pthread_getcpuclockid(thread.native_handle(), &clock) == 0 && ::clock_gettime(clock, &used) == 0;
    return is_known ? std::chrono::seconds(used.tv_sec) + nanoseconds(used.tv_nsec) : nanoseconds(0);
}

}  // namespace

thread_local Workers::Worker* Workers::current_ = nullptr;

Workers::~Workers() {
    {
        std::lock_guard const lock(mutex_);
        is_ending_ = true;
    }
    has_changed_.notify_all();
    for (auto const& worker : workers_)
        worker->thread.join();
}

Result<> Workers::start(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        TRY(start_one());
    return {};
}

Result<> Workers::start_one() {
    auto worker = std::make_unique<Worker>();
    Worker& self = *worker;
    {
        std::lock_guard const lock(mutex_);
        workers_.push_back(std::move(worker));
    }
    auto thread = start_thread([this, &self] { go(self); });
    if (thread) {
        self.thread = *std::move(thread);
        return {};
    }
    std::lock_guard const lock(mutex_);
    workers_.pop_back();
    return std::unexpected(thread.error());
}

void Workers::run(std::optional<volume::FileSystem> file_system, Task task) {
    {
        std::lock_guard const lock(mutex_);
        tasks_.push_back({file_system, std::move(task)});
    }
    has_changed_.notify_one();
}

void Workers::tell(std::function<void()> call) {
    if (current_) {
        std::lock_guard const lock(mutex_);
        current_->sign = steady_now();
    }
    mailbox_.post(std::move(call));
}

bool Workers::is_busy() {
    std::lock_guard const lock(mutex_);
    return !tasks_.empty() || std::ranges::any_of(workers_, [](auto const& worker) {
        return worker->sign.has_value() && !worker->is_stuck;
    });
}

void Workers::forget_ended() {
    std::vector<std::unique_ptr<Worker>> ended;
    {
        std::lock_guard const lock(mutex_);
        for (auto& worker : workers_)
            if (worker->has_ended) ended.push_back(std::move(worker));
        std::erase(workers_, nullptr);
    }
    for (auto const& worker : ended)
        worker->thread.join();
}

Result<std::size_t> Workers::replace_stuck() {
    forget_ended();
    std::size_t found = 0;
    {
        std::lock_guard const lock(mutex_);
        TimePoint const oldest = steady_now() - stuck_after_;
        auto all = static_cast<std::size_t>(
            std::ranges::count_if(workers_, [](auto const& worker) { return worker->is_stuck; }));
        for (auto const& worker : workers_) {
            if (worker->is_stuck || !worker->sign || *worker->sign > oldest || all == most_stuck) continue;
            // One that copies a large file says nothing for long, but works.
            if (nanoseconds const used = used_by(worker->thread); used != std::exchange(worker->used, used)) {
                worker->sign = steady_now();
                continue;
            }
            worker->is_stuck = true;
            ++found;
            ++all;
        }
    }
    for (std::size_t i = 0; i < found; ++i)
        TRY(start_one());
    return found;
}

std::size_t Workers::stuck() {
    std::lock_guard const lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(workers_, [](auto const& worker) { return worker->is_stuck; }));
}

/// The first one that does not need what another one hangs on. Under the mutex.
std::deque<Workers::Waiting>::iterator Workers::next_task() {
    return std::ranges::find_if(tasks_, [this](Waiting const& waiting) {
        return !waiting.file_system || std::ranges::none_of(workers_, [&waiting](auto const& worker) {
            return worker->is_stuck && worker->file_system == waiting.file_system;
        });
    });
}

void Workers::go(Worker& self) {
    current_ = &self;
    auto const open = [this] { return std::make_unique<Result<volume::Workbench>>(volume::Workbench::open(place_)); };
    std::unique_ptr<Result<volume::Workbench>> bench;
    for (;;) {
        Task task;
        {
            std::unique_lock lock(mutex_);
            has_changed_.wait(lock, [this] { return is_ending_ || next_task() != tasks_.end(); });
            if (is_ending_) return;
            auto const next = next_task();
            task = std::move(next->task);
            self.file_system = next->file_system;
            tasks_.erase(next);
            self.sign = steady_now();
        }
        if (!bench || !*bench) bench = open();  // what was missing may be there now
        auto done = task(*bench);
        {
            std::lock_guard const lock(mutex_);
            self.sign.reset();
        }
        mailbox_.post(std::move(done));
        std::lock_guard const lock(mutex_);
        if (!std::exchange(self.is_stuck, false)) continue;
        self.has_ended = true;  // another one has its place
        has_changed_.notify_all();
        return;
    }
}

}  // namespace triton::program
