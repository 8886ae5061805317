#include "launcher/spawn.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include <linux/sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

constexpr std::size_t page = 4096;
// run_spawn_child() needs a few hundred bytes; no signal handler ever runs on it, since the launcher has none.
constexpr std::size_t stack_bytes = 2048;

}  // namespace

/// One mapping: the child's stack at the bottom, then this, then argv and its text.
struct Spawner::Slot {
    SpawnChild child;
    std::shared_ptr<StartPlan const> plan;
    Pid pid;
    std::size_t bytes;  // of the mapping
    Slot* next;

    [[nodiscard]] char* mapping() { return reinterpret_cast<char*>(this) - stack_bytes; }
    [[nodiscard]] char* room() { return reinterpret_cast<char*>(this + 1); }
    [[nodiscard]] bool has_left() const { return __atomic_load_n(&child.thread_id, __ATOMIC_ACQUIRE) == 0; }
};

StartPlan::StartPlan(std::string program, std::vector<std::string> environment, config::CommandTemplate command)
    : program_(std::move(program)), environment_(std::move(environment)), command_(std::move(command)) {
    envp_.reserve(environment_.size() + 1);
    for (std::string& entry : environment_)
        envp_.push_back(entry.data());
    envp_.push_back(nullptr);
}

Spawner::Spawner(Inherited const& inherited, int orphan_signal)
    : inherited_(inherited), orphan_signal_(orphan_signal), own_pid_(::getpid()) {}

Spawner::~Spawner() {
    // Children that have not left yet keep their slots: the mapping ends with the process.
    recycle();
    trim();
}

Spawner::Slot* Spawner::new_slot(std::size_t bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    auto* const slot = new (static_cast<char*>(at) + stack_bytes) Slot{};
    slot->bytes = bytes;
    return slot;
}

void Spawner::free_slot(Slot* slot) {
    char* const mapping = slot->mapping();
    std::size_t const bytes = slot->bytes;
    slot->~Slot();
    ::munmap(mapping, bytes);
}

Spawner::Slot* Spawner::take_slot(StartPlan const& plan) {
    std::size_t const room = (plan.command().argument_count() + 2) * sizeof(char*) + plan.command().buffer_size();
    std::size_t const bytes = (stack_bytes + sizeof(Slot) + room + page - 1) / page * page;
    recycle();
    while (free_) {
        Slot* const slot = std::exchange(free_, free_->next);
        if (slot->bytes >= bytes) return slot;
        free_slot(slot);  // an older configuration's, too small
    }
    return new_slot(bytes);
}

/// Children leave in about the order in which they came, so it is enough to look at the oldest ones.
void Spawner::recycle() {
    while (oldest_ && oldest_->has_left() && !oldest_->child.error) {
        Slot* const slot = std::exchange(oldest_, oldest_->next);
        slot->plan.reset();
        slot->next = std::exchange(free_, slot);
    }
    if (!oldest_) newest_ = nullptr;
}

std::expected<Pid, SpawnError> Spawner::spawn(std::shared_ptr<StartPlan const> const& plan, ProcessNumber number) {
    Slot* const slot = take_slot(*plan);
    if (!slot) return std::unexpected(SpawnError{SpawnStage::clone, ENOMEM});

    auto** const argv = reinterpret_cast<char**>(slot->room());
    std::size_t const places = plan->command().argument_count() + 1;
    argv[0] = const_cast<char*>(plan->program());
    plan->command().render(number, {reinterpret_cast<char*>(argv + 1 + places), plan->command().buffer_size()},
                           {argv + 1, places});
    slot->plan = plan;
    slot->next = nullptr;
    slot->child = {plan->program(),
                   argv,
                   plan->envp(),
                   inherited_.mask,
                   inherited_.sigchld_was_ignored ? &inherited_.sigchld : nullptr,
                   orphan_signal_,
                   own_pid_,
                   /*thread_id=*/-1,
                   /*failed_stage=*/0,
                   /*error=*/0};

    raw::Value pid = raw::clone(CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, slot, &slot->child.thread_id,
                                run_spawn_child, &slot->child);
    if (pid == -EINVAL) {
        // qemu's user mode emulation (an image of another architecture) knows only threads and vfork. With that the
        // child has left our memory when clone returns.
        pid = raw::clone(CLONE_VM | CLONE_VFORK | SIGCHLD, slot, nullptr, run_spawn_child, &slot->child);
        slot->child.thread_id = 0;
    }
    if (pid < 0) {
        slot->plan.reset();
        slot->next = std::exchange(free_, slot);
        return std::unexpected(SpawnError{SpawnStage::clone, static_cast<int>(-pid)});
    }
    slot->pid = Pid{static_cast<pid_t>(pid)};
    (newest_ ? newest_->next : oldest_) = slot;
    newest_ = slot;
    return slot->pid;
}

std::optional<SpawnError> Spawner::take_error(Pid pid) {
    recycle();
    for (Slot** at = &oldest_; *at; at = &(*at)->next) {
        Slot* const slot = *at;
        if (slot->pid != pid || !slot->child.error) continue;
        SpawnError const error{static_cast<SpawnStage>(slot->child.failed_stage), slot->child.error};
        slot->child.error = 0;  // recycle() takes it from here
        return error;
    }
    return std::nullopt;
}

void Spawner::trim() {
    recycle();
    while (free_)
        free_slot(std::exchange(free_, free_->next));
}

}  // namespace triton::launcher
