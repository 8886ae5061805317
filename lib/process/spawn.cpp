#include "lib/process/spawn.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include <linux/sched.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace triton::process {

namespace {

constexpr std::size_t page = 4096;
// run_spawn_child() needs a few hundred bytes; no signal handler ever runs on it, since the launcher has none.
constexpr std::size_t stack_bytes = 2048;

constexpr std::string_view notify_socket = "NOTIFY_SOCKET=";
constexpr std::string_view listen_pid = "LISTEN_PID=";
constexpr std::string_view watchdog_pid = "WATCHDOG_PID=";

/// Whether a child must not share our memory while it becomes what the plan says:
/// - Its user could look into the shared memory (ptrace). So the kernel makes that memory undumpable when the ids
/// change, for us as well and for good. A launcher that is root only in a user namespace then no longer owns its own
/// /proc files. Before Linux 5.16 a core dump of the child would also end us.
/// - The OOM killer ends all that share the memory of its victim. In a cgroup with a small limit it can choose a child
/// before execve.
/// - oom_score_adj is written to all that share a memory.
/// CLONE_VFORK would help against the last two. But then a working directory or a program on a file server that does
/// not answer would stop us as well.
bool needs_own_memory(Attributes const& with, StartFiles const& files) {
    return files.cgroup >= 0 || with.oom_score_adj || with.identity != Identity{};
}

/// Starts a child with a copy of our memory that is in its cgroup from the first moment. Moving it there afterwards
/// takes up to 20 ms on an idle machine: the kernel waits for a grace period. -ENOSYS: it must be moved, because clone3
/// or this flag is not available (Linux before 5.7; Docker's default seccomp profile).
raw::Value clone_into_cgroup(SpawnChild& child) {
    clone_args arguments{};
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = SIGCHLD;
    arguments.cgroup = static_cast<unsigned>(std::exchange(child.cgroup, -1));
    raw::Value const pid = raw::call(SYS_clone3, raw::address(&arguments), sizeof arguments);
    if (pid == 0) run_spawn_child(&child);
    if (pid > 0 || pid == -EAGAIN || pid == -ENOMEM) return pid;
    // Whatever the error is: if the cgroup cannot be entered at all, the child will find that out.
    child.cgroup = static_cast<int>(arguments.cgroup);
    return -ENOSYS;
}

/// Returns the child's pid, or -errno. `stack_top`: the child's stack, whether it shares our memory or gets a copy.
raw::Value clone(SpawnChild& child, void* stack_top, bool is_copy, int cgroup) {
    unsigned long const sharing = is_copy ? 0 : CLONE_VM | CLONE_CHILD_CLEARTID;
    raw::Value pid = cgroup >= 0 ? clone_into_cgroup(child) : -ENOSYS;
    if (pid == -ENOSYS) pid = raw::clone(sharing | SIGCHLD, stack_top, &child.thread_id, run_spawn_child, &child);
    if (pid == -EINVAL && !is_copy) {
        // qemu's user mode emulation (an image of another architecture) knows only threads and vfork. With vfork the
        // child has left our memory when clone returns.
        pid = raw::clone(CLONE_VM | CLONE_VFORK | SIGCHLD, stack_top, nullptr, run_spawn_child, &child);
        child.thread_id = 0;
    }
    return pid;
}

/// Writes a child's environment: that of the plan, and the child's own variables.
class EnvironmentWriter {
public:
    EnvironmentWriter(char** envp, std::size_t places, char* text, std::size_t bytes)
        : begin_(envp), at_(envp), end_(envp + places), text_(text, bytes) {}

    void add(SharedEnvironment const& environment) {
        for (char* const* entry = environment.envp(); *entry; ++entry)
            *at_++ = *entry;
    }
    void add(CommandTemplate const& entries, ProcessNumber number) {
        entries.render(number, text_, {at_, end_});
        at_ += entries.argument_count();
        text_ = text_.subspan(entries.buffer_size());
    }
    /// Adds a variable. Returns where its value begins.
    char* add(std::string_view name, std::string_view value, std::size_t room) {
        char* const entry = text_.data();
        *at_++ = entry;
        std::memcpy(entry, name.data(), name.size());
        std::memcpy(entry + name.size(), value.data(), value.size());
        entry[name.size() + value.size()] = '\0';
        text_ = text_.subspan(name.size() + room);
        return entry + name.size();
    }
    char** finish() {
        *at_ = nullptr;
        return begin_;
    }

private:
    char** begin_;
    char** at_;
    char** end_;
    std::span<char> text_;
};

unsigned list_moves(FdMove* moves, StartPlan const& plan, StartFiles const& files) {
    unsigned count = 0;
    auto const add = [&](int from, int to) {
        if (from >= 0) moves[count++] = {from, to};
    };
    if (files.input) moves[count++] = {-1, 0};  // the child opens it
    add(files.in, 0);
    add(files.out, 1);
    add(files.err, 2);
    for (std::size_t i = 0; i < files.listen.size(); ++i)
        add(files.listen[i], static_cast<int>(3 + i));
    if (files.ready >= 0) add(files.ready, *plan.attributes().ready_target);
    return count;
}

}  // namespace

/// The sizes of what one start needs behind its Slot: pointers first, then descriptors, then text.
struct Spawner::Room {
    std::size_t argv;  // places, including the null pointer
    std::size_t envp = 0;
    std::size_t moves;
    std::size_t paths = 0;  // places for pointers to them
    std::size_t environment_text = 0;
    std::size_t path_text = 0;
    std::size_t bytes;

    Room(StartPlan const& plan, ProcessNumber number, StartFiles const& files)
        : argv(plan.command().argument_count() + 2) {
        moves = (files.input || files.in >= 0) + (files.out >= 0) + (files.err >= 0) + files.listen.size() +
                (files.ready >= 0);
        std::size_t own = 0;
        auto const add = [&](std::size_t count, std::size_t text) {
            own += count;
            environment_text += text;
        };
        for (std::string const& variable : files.variables)
            add(1, variable.size() + 1);
        for (CommandTemplate const& entries : plan.numbered().environment)
            add(entries.argument_count(), entries.buffer_size());
        if (!files.listen.empty()) add(1, listen_pid.size() + pid_room);
        if (plan.attributes().watchdog_microseconds > 0) add(1, watchdog_pid.size() + pid_room);
        if (files.notify_socket) add(1, notify_socket.size() + std::strlen(files.notify_socket) + 1);
        if (own > 0) envp = plan.environment(number).entries().size() + own + 1;
        if (Rare<CommandTemplate> const& directory = plan.numbered().directory) add_path(*directory);
        if (files.input) add_path(*files.input);
        bytes = (argv + envp + paths) * sizeof(char*) + moves * sizeof(FdMove) + plan.command().buffer_size() +
                environment_text + path_text;
    }
    void add_path(CommandTemplate const& path) {
        paths += path.argument_count() + 1;
        path_text += path.buffer_size();
    }
};

/// One mapping of memory: the child's stack at the bottom, then this, then what Room describes.
struct Spawner::Slot {
    SpawnChild child;
    std::shared_ptr<StartPlan const> plan;
    std::size_t bytes;  // of the mapping
    Slot* next;         // in the list of free ones

    [[nodiscard]] char* mapping() { return reinterpret_cast<char*>(this) - stack_bytes; }
    [[nodiscard]] char* room() { return reinterpret_cast<char*>(this + 1); }
    [[nodiscard]] bool has_left() const { return __atomic_load_n(&child.thread_id, __ATOMIC_ACQUIRE) == 0; }
};

MarkLimits MarkLimits::of_this_process() {
    rlimit limit{};
    return MarkLimits(::getrlimit(RLIMIT_LOCKS, &limit) == 0 ? limit.rlim_max : 0);
}

Spawner::Spawner(Inherited const& inherited, int orphan_signal)
    : inherited_(inherited),
      orphan_signal_(orphan_signal),
      own_pid_(::getpid()),
      mark_limits_(MarkLimits::of_this_process()),
      failures_(map_cells<FailureCells>(MAP_PRIVATE)) {}

template <class Cells>
Cells* Spawner::map_cells(int sharing) {
    void* const at = ::mmap(nullptr, sizeof(Cells), PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<Cells*>(at);
}

Spawner::~Spawner() {
    // Children that have not left our memory yet keep their slots and the cells: the mappings end with the process.
    trim();
    if (shared_failures_) ::munmap(shared_failures_, sizeof(FailureCells));
    if (words_) ::munmap(words_, sizeof(ExecutionWords));
    if (children_.empty() && failures_) ::munmap(failures_, sizeof(FailureCells));
#ifdef __SANITIZE_ADDRESS__
    for (Child const& child : children_) {
        if (child.slot) __lsan_register_root_region(child.slot, sizeof(Slot));  // what these slots hold is not a leak
    }
#endif
}

Spawner::Slot* Spawner::new_slot(std::size_t bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    auto* const slot = new (static_cast<char*>(at) + stack_bytes) Slot{};
    slot->bytes = bytes;
    slot_bytes_ += bytes;
    return slot;
}

void Spawner::free_slot(Slot* slot) {
    char* const mapping = slot->mapping();
    std::size_t const bytes = slot->bytes;
    slot->~Slot();
    ::munmap(mapping, bytes);
    slot_bytes_ -= bytes;
}

Spawner::Slot* Spawner::take_slot(std::size_t room) {
    std::size_t const bytes = (stack_bytes + sizeof(Slot) + room + page - 1) / page * page;
    look(looks_per_start);
    while (free_) {
        Slot* const slot = std::exchange(free_, free_->next);
        if (slot->bytes >= bytes) return slot;
        free_slot(slot);  // it was made for a smaller plan
    }
    return new_slot(bytes);
}

void Spawner::release(Slot* slot) {
    slot->plan.reset();
    slot->next = std::exchange(free_, slot);
}

/// A free word in memory that we share with children that have a copy; null: there is none.
ExecutionWord* Spawner::take_word() {
    // To the kernel a shared mapping is a file of its own, so it is made only when it is needed.
    if (!words_) words_ = map_cells<ExecutionWords>(MAP_SHARED);
    if (!words_) return nullptr;
    constexpr std::size_t count = sizeof(ExecutionWords::words) / sizeof(ExecutionWord);
    // There are as many words as there may be processes, and each is given back when its child has left: usually the
    // next one is free.
    for (std::size_t tries = 0; tries < count; ++tries) {
        ExecutionWord& word = words_->words[words_->next % count];
        words_->next = static_cast<unsigned>((words_->next + 1) % count);
        if (word == word_is_free) return &word;
    }
    return nullptr;
}

// Children that have left.

/// Makes room for one more child, so that it cannot get lost for want of memory.
void Spawner::make_room() {
    if (children_.size() == children_.capacity()) children_.reserve(2 * children_.size() + 16);
}

bool Spawner::has_left(Child const& child) {
    if (child.slot) return child.slot->has_left();
    return child.word && (__atomic_load_n(child.word, __ATOMIC_ACQUIRE) & owner_has_left) != 0;
}

bool Spawner::has_failed(Pid pid) const {
    for (FailureCells* const failures : {failures_, shared_failures_}) {
        if (!failures) continue;
        unsigned long const used = __atomic_load_n(&failures->used, __ATOMIC_ACQUIRE);
        for (unsigned long& cell : std::span(failures->words, used)) {
            if (FailureCells::pid(__atomic_load_n(&cell, __ATOMIC_ACQUIRE)) == static_cast<long>(pid)) return true;
        }
    }
    return false;
}

/// Removes a child: what it used is free again.
void Spawner::remove(std::size_t at) {
    Child const child = children_[at];
    children_[at] = children_.back();
    children_.pop_back();
    if (child.slot) release(child.slot);
    if (child.word) __atomic_store_n(child.word, word_is_free, __ATOMIC_RELEASE);
    if (child.is_watched) left_.push_back({child.pid, child.round, has_failed(child.pid)});
}

/// Looks at this many children in turn. Their number depends on how many are held up before execve.
void Spawner::look(std::size_t most) {
    most = std::min(most, children_.size());
    left_.reserve(left_.size() + most);  // before anything is removed
    for (; most > 0; --most) {
        if (next_look_ >= children_.size()) next_look_ = 0;
        has_left(children_[next_look_]) ? remove(next_look_) : void(++next_look_);
    }
}

void Spawner::take_left(std::vector<Left>& left, std::optional<std::uint32_t> ended_round) {
    left_.reserve(left_.size() + children_.size());
    look(children_.size());
    for (std::size_t at = children_.size(); ended_round && at-- > 0;) {
        Child const& child = children_[at];
        // A child whose word could not be marked has left by now. The others may have closed their end early, to put a
        // descriptor of the program in its place.
        bool const is_unmarked =
            !child.slot && (!child.word || __atomic_load_n(child.word, __ATOMIC_ACQUIRE) == word_is_given);
        if (child.is_watched && child.round == *ended_round && is_unmarked) remove(at);
    }
    left.clear();
    left.swap(left_);
    std::ranges::sort(left, {}, &Left::pid);  // nearly always the order of their start
}

std::optional<std::uint32_t> Spawner::forget(Pid pid) {
    if (auto const at = std::ranges::find(left_, pid, &Left::pid); at != left_.end()) {
        std::uint32_t const round = at->round;
        left_.erase(at);
        return round;
    }
    auto const at = std::ranges::find_if(children_, [pid](Child const& c) { return c.pid == pid && c.is_watched; });
    if (at == children_.end()) return std::nullopt;
    std::uint32_t const round = at->round;
    at->is_watched = false;
    // A copy leaves nothing behind; a slot is free only when the kernel says so.
    if (!at->slot) remove(static_cast<std::size_t>(at - children_.begin()));
    return round;
}

void Spawner::prepare(Slot& slot, StartPlan const& plan, ProcessNumber number, StartFiles const& files,
                      Room const& room) const {
    auto** const argv = reinterpret_cast<char**>(slot.room());
    char** const envp = argv + room.argv;
    char** paths = envp + room.envp;
    auto* const moves = reinterpret_cast<FdMove*>(paths + room.paths);
    auto* const arguments = reinterpret_cast<char*>(moves + room.moves);
    std::size_t const argument_bytes = plan.command().buffer_size();

    bool const has_default_signals = plan.attributes().has_default_signals;
    bool const ignores_sigchld = inherited_.sigchld_was_ignored && !has_default_signals;

    argv[0] = const_cast<char*>(plan.name());
    plan.command().render(number, {arguments, argument_bytes}, {argv + 1, room.argv - 1});
    slot.child = {.program = plan.program(),
                  .argv = argv,
                  .envp = plan.environment(number).envp(),
                  .inherited_mask = inherited_.mask,
                  .inherited_sigchld = ignores_sigchld ? &inherited_.sigchld : nullptr,
                  .to_default = has_default_signals ? inherited_.ignored : 0,
                  .orphan_signal = orphan_signal_,
                  .parent = own_pid_,
                  .thread_id = -1,
                  .failures = needs_own_memory(plan.attributes(), files) ? shared_failures_ : failures_,
                  .execution = nullptr,
                  .attributes = plan.child_attributes(),
                  .working_directory = nullptr,
                  .cgroup = files.cgroup,
                  .mark = files.mark,
                  .mark_locks = mark_limits_.locks_of(files.mark),
                  .input = nullptr,
                  .moves = moves,
                  .move_count = list_moves(moves, plan, files),
                  .has_terminal = files.has_terminal,
                  .leaves_foreground = files.leaves_foreground,
                  .listen_pid = nullptr,
                  .watchdog_pid = nullptr};
    char* const environment_text = arguments + argument_bytes;
    char* path_text = environment_text + room.environment_text;
    auto const render = [&](CommandTemplate const& path) {
        path.render(number, {std::exchange(path_text, path_text + path.buffer_size()), path.buffer_size()},
                    {paths, path.argument_count() + 1});
        return *std::exchange(paths, paths + path.argument_count() + 1);
    };
    if (Rare<CommandTemplate> const& directory = plan.numbered().directory)
        slot.child.working_directory = render(*directory);
    if (files.input) slot.child.input = render(*files.input);
    if (room.envp == 0) return;
    EnvironmentWriter environment(envp, room.envp, environment_text, room.environment_text);
    for (std::string const& variable : files.variables)
        environment.add(variable, "", 1);
    environment.add(plan.environment(number));
    for (CommandTemplate const& entries : plan.numbered().environment)
        environment.add(entries, number);
    if (!files.listen.empty()) slot.child.listen_pid = environment.add(listen_pid, "", pid_room);
    if (plan.attributes().watchdog_microseconds > 0)
        slot.child.watchdog_pid = environment.add(watchdog_pid, "", pid_room);
    if (files.notify_socket) environment.add(notify_socket, files.notify_socket, std::strlen(files.notify_socket) + 1);
    slot.child.envp = environment.finish();
}

std::expected<Pid, SpawnError> Spawner::spawn(std::shared_ptr<StartPlan const> const& plan, ProcessNumber number,
                                              StartFiles const& files, std::optional<std::uint32_t> round) {
    assert(files.listen.size() == plan->attributes().listen_names.size());
    make_room();
    Room const room(*plan, number, files);
    bool const is_copy = needs_own_memory(plan->attributes(), files);
    // There was no memory for them before: one failure is not the end of all starts.
    if (!is_copy && !failures_) failures_ = map_cells<FailureCells>(MAP_PRIVATE);
    // To the kernel a shared mapping is a file of its own, so it is made only when it is needed.
    if (is_copy && !shared_failures_) shared_failures_ = map_cells<FailureCells>(MAP_SHARED);
    FailureCells const* const failures = is_copy ? shared_failures_ : failures_;
    Slot* const slot = failures ? take_slot(room.bytes) : nullptr;
    if (!slot) return std::unexpected(SpawnError{SpawnStage::clone, ENOMEM});
    prepare(*slot, *plan, number, files, room);
    slot->plan = plan;
    slot->next = nullptr;
    ExecutionWord* const word = is_copy && round ? take_word() : nullptr;
    if (word) *word = word_is_given;
    slot->child.execution = word;

    raw::Value const pid = clone(slot->child, slot, is_copy, files.cgroup);
    if (pid < 0 || is_copy) release(slot);  // a copy has a slot of its own
    if (pid < 0) {
        if (word) *word = word_is_free;
        return std::unexpected(SpawnError{SpawnStage::clone, static_cast<int>(-pid)});
    }
    ++starts_;
    if (!is_copy || round)
        children_.push_back(
            {Pid{static_cast<pid_t>(pid)}, is_copy ? nullptr : slot, word, round.value_or(0), round.has_value()});
    return Pid{static_cast<pid_t>(pid)};
}

std::optional<SpawnError> Spawner::take_error(Pid pid) {
    for (FailureCells* const failures : {failures_, shared_failures_}) {
        if (!failures) continue;
        unsigned long const used = __atomic_load_n(&failures->used, __ATOMIC_ACQUIRE);
        for (unsigned long& cell : std::span(failures->words, used)) {
            unsigned long const word = __atomic_load_n(&cell, __ATOMIC_ACQUIRE);
            if (word == 0 || FailureCells::pid(word) != static_cast<long>(pid)) continue;
            __atomic_store_n(&cell, 0UL, __ATOMIC_RELEASE);
            return SpawnError{static_cast<SpawnStage>(FailureCells::stage(word)), FailureCells::error(word)};
        }
    }
    return std::nullopt;
}

bool Spawner::is_idle() {
    look(children_.size());
    return children_.empty() && left_.empty();
}

void Spawner::trim() {
    look(children_.size());
    while (free_)
        free_slot(std::exchange(free_, free_->next));
}

namespace {

std::string number_after(std::string_view text, std::optional<std::int64_t> number) {
    return number ? std::string(text) + " " + std::to_string(*number) : std::string(text);
}

std::string path_after(std::string_view text, std::string_view path) {
    return path.empty() ? std::string(text) : std::string(text).append(" ").append(path);
}

}  // namespace

std::string stage_text(SpawnStage stage, StartPlan const* plan, ProcessNumber number) {
    static Attributes const none;
    Attributes const& with = plan ? plan->attributes() : none;
    switch (stage) {
        case SpawnStage::clone: return "clone";
        case SpawnStage::cgroup: return "enter its cgroup";
        case SpawnStage::descriptors: return "hand descriptors on";
        case SpawnStage::process_group: return "make a process group";
        case SpawnStage::oom_score: return number_after("set the OOM score adjustment", with.oom_score_adj);
        case SpawnStage::resource_limit: return "set the resource limits";
        case SpawnStage::nice: return number_after("set the nice value", with.nice);
        case SpawnStage::cpu_affinity: return "set the CPU affinity";
        case SpawnStage::root_directory: return path_after("enter the root directory", with.root_directory);
        case SpawnStage::bounding_capabilities: return "drop capabilities from the bounding set";
        case SpawnStage::groups: return "set the supplementary groups";
        case SpawnStage::group: return number_after("become group", with.identity.group);
        case SpawnStage::user: return number_after("become user", with.identity.user);
        case SpawnStage::capabilities: return "set the capabilities";
        case SpawnStage::no_new_privileges: return "set no_new_privs";
        case SpawnStage::parent_death_signal: return "set the parent death signal";
        case SpawnStage::working_directory:
            return path_after("enter the working directory", plan ? plan->working_directory(number) : "");
        case SpawnStage::landlock: return "enter the Landlock sandbox";
        case SpawnStage::seccomp: return "install the seccomp filter";
        case SpawnStage::terminal: return "open a terminal of its own (/dev/ptmx)";
        case SpawnStage::controlling_terminal: return "take its terminal";
        case SpawnStage::input: return "open the file of its stdin";
        case SpawnStage::execute:
            return path_after("execute", plan ? plan->program() : "") +
                   (with.root_directory.empty() ? "" : " inside " + with.root_directory);
    }
    std::unreachable();
}

}  // namespace triton::process
