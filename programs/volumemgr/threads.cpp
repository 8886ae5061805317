#include "programs/volumemgr/threads.h"

#include <cerrno>
#include <cstdint>
#include <utility>

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

Workers::~Workers() {
    {
        std::lock_guard const lock(mutex_);
        is_ending_ = true;
    }
    has_changed_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

Result<> Workers::start(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        threads_.push_back(TRY(start_thread([this] { go(); })));
    return {};
}

void Workers::run(Task task) {
    {
        std::lock_guard const lock(mutex_);
        tasks_.push_back(std::move(task));
    }
    has_changed_.notify_one();
}

void Workers::go() {
    auto const open = [this] { return std::make_unique<Result<volume::Workbench>>(volume::Workbench::open(place_)); };
    auto bench = open();
    for (;;) {
        Task task;
        {
            std::unique_lock lock(mutex_);
            has_changed_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
            if (is_ending_) return;
            task = std::move(tasks_.front());
            tasks_.pop_front();
        }
        if (!*bench) bench = open();  // what was missing may be there now
        auto done = task(*bench);
        mailbox_.post(std::move(done));
    }
}

}  // namespace triton::program
