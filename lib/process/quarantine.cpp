#include "lib/process/quarantine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/process/raw_syscall.h"

namespace triton::process {

namespace {

// Senders decide how long a helper lives, up to `patience`, and how many there are, up to `most_helpers`.
constexpr std::size_t most_helpers = 8;
constexpr long patience_seconds = 5;
constexpr std::size_t most_descriptors = 253;  // SCM_MAX_FD
constexpr milliseconds between_tries{100};     // to make a helper
constexpr long highest_descriptor = 1 << 20;   // used where there is no close_range(2)
constexpr char answer_taken = 'T';

#ifndef SO_PASSRIGHTS
constexpr int SO_PASSRIGHTS = 83;
#endif

/// Room for this many descriptors, and nothing else.
template <std::size_t Count>
struct alignas(cmsghdr) Room {
    std::array<char, CMSG_SPACE(Count * sizeof(int))> bytes{};
};

// What runs in the helper. It makes only system calls, since its memory is a copy of its parent's.

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t architecture = 0;  // no filter
#endif

constexpr std::array allowed_calls{SYS_read,       SYS_recvmsg,     SYS_sendmsg,   SYS_close,
                                   SYS_getsockopt, SYS_getpeername, SYS_exit_group};

/// Makes the filter. The architecture is checked because on another one the same numbers mean other calls. Source:
/// seccomp(2).
constexpr auto make_filter() {
    constexpr std::size_t count = allowed_calls.size();
    std::array<sock_filter, count + 6> filter{};
    std::size_t at = 0;
    filter[at++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    filter[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, architecture, 1, 0);
    filter[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[at++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    for (std::size_t i = 0; i < count; ++i) {
        filter[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(allowed_calls[i]),
                                static_cast<std::uint8_t>(count - i), 0);
    }
    filter[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return filter;
}
constexpr auto trial_filter = make_filter();

/// Gives up everything that a system call could be misused for. If something cannot be given up (a kernel without
/// filters), the rest still is.
void give_up_rights() {
    (void)raw::call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)raw::call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> const none{};
    (void)raw::call(SYS_capset, raw::address(&header), raw::address(none.data()));
    if constexpr (architecture != 0) {
        sock_fprog const program{static_cast<unsigned short>(trial_filter.size()),
                                 const_cast<sock_filter*>(trial_filter.data())};
        (void)raw::call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, raw::address(&program), 0, 0);
    }
}

/// Sets the helper's end by SIGALRM, which also ends a wait for the owner of a file.
void set_end() {
    raw::KernelSigaction const standard{};
    (void)raw::call(SYS_rt_sigaction, SIGALRM, raw::address(&standard), 0, sizeof(raw::SignalSet));
    raw::SignalSet const set = raw::bit(SIGALRM);
    (void)raw::call(SYS_rt_sigprocmask, SIG_UNBLOCK, raw::address(&set), 0, sizeof set);
    itimerval const when{{}, {patience_seconds, 0}};
    (void)raw::call(SYS_setitimer, ITIMER_REAL, raw::address(&when), 0);
}

void close_between(long first, long last) {
    if (first > last || raw::call(SYS_close_range, first, last, 0) == 0) return;
    for (long fd = first; fd <= std::min(last, highest_descriptor); ++fd)
        (void)raw::call(SYS_close, fd);
}

/// Takes one message of any kind, and drops its bytes. Returns the only descriptor that came with it, or -1.
int take_message(int socket) {
    char byte = 0;
    iovec data{&byte, 1};
    Room<most_descriptors> room;
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = room.bytes.data();
    message.msg_controllen = room.bytes.size();
    if (raw::call(SYS_recvmsg, socket, raw::address(&message), MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return -1;
    int only = -1;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        if (part->cmsg_len == CMSG_LEN(sizeof only)) std::memcpy(&only, CMSG_DATA(part), sizeof only);
    }
    return only;
}

/// Whether this is a connected stream. Such a socket cannot become a listening one, and closing it does not block.
bool is_connected_stream(int fd) {
    auto const option = [fd](int name) {
        int value = -1;
        socklen_t size = sizeof value;
        return raw::call(SYS_getsockopt, fd, SOL_SOCKET, name, raw::address(&value), raw::address(&size)) == 0 ? value
                                                                                                               : -1;
    };
    sockaddr_storage peer;
    socklen_t size = sizeof peer;
    return option(SO_DOMAIN) == AF_UNIX && option(SO_TYPE) == SOCK_STREAM &&
           raw::call(SYS_getpeername, fd, raw::address(&peer), raw::address(&size)) == 0;
}

void answer(int control, int passed) {
    char byte = answer_taken;
    iovec data{&byte, 1};
    Room<1> room;
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (passed >= 0) {
        message.msg_control = room.bytes.data();
        message.msg_controllen = room.bytes.size();
        cmsghdr* const part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof passed);
        std::memcpy(CMSG_DATA(part), &passed, sizeof passed);
    }
    (void)raw::call(SYS_sendmsg, control, raw::address(&message), MSG_NOSIGNAL);
}

// What runs on our side.

/// Reads what a helper answers. nullopt: nothing yet; without a descriptor: none came, or the helper has ended.
std::optional<UniqueFd> read_answer(int control) {
    char byte = 0;
    iovec data{&byte, 1};
    Room<1> room;
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = room.bytes.data();
    message.msg_controllen = room.bytes.size();
    if (::recvmsg(control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return errno == EAGAIN || errno == EINTR ? std::nullopt : std::optional<UniqueFd>(std::in_place);
    cmsghdr const* const part = CMSG_FIRSTHDR(&message);
    if (!part || part->cmsg_len != CMSG_LEN(sizeof(int))) return UniqueFd{};
    int passed = -1;
    std::memcpy(&passed, CMSG_DATA(part), sizeof passed);
    return UniqueFd{passed};
}

bool is_stream(int socket) {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/// Whether close(2) would not drop anything. Nothing more can come.
bool is_empty(int socket) {
    char byte = 0;
    Peeked const front = peek(socket, {&byte, 1});
    if (front.state != Peeked::State::message) return true;
    return front.size == 0 && !front.has_descriptors && is_stream(socket);
}

/// Reaps helpers of the launcher before us, which has become us, and trials that were left behind.
void reap_strays() {
    while (::waitpid(-1, nullptr, __WCLONE | WNOHANG) > 0) {
    }
}

}  // namespace

namespace {

/// Looks at a message with room only for what the kernel always adds: descriptors find none, and MSG_CTRUNC tells that
/// there were some.
Peeked peek_message(int socket, std::span<char> into, msghdr& message) {
    iovec part{into.data(), into.size()};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ssize_t size = -1;
    do {
        size = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
    } while (size < 0 && errno == EINTR);
    Peeked front;
    if (size < 0) {
        front.state = errno == EAGAIN ? Peeked::State::nothing : Peeked::State::broken;
        return front;
    }
    front.state = Peeked::State::message;
    front.size = static_cast<std::size_t>(size);
    front.is_cut = (message.msg_flags & MSG_TRUNC) != 0;
    front.has_descriptors = (message.msg_flags & MSG_CTRUNC) != 0;
    return front;
}

}  // namespace

Peeked peek(int socket, std::span<char> into) {
    msghdr message{};
    return peek_message(socket, into, message);
}

Peeked peek_with_sender(int socket, std::span<char> into) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    Peeked front = peek_message(socket, into, message);
    if (front.state != Peeked::State::message) return front;
    cmsghdr const* const header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
        ucred credentials{};
        std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
        front.pid = credentials.pid;
        front.user = credentials.uid;
    }
    return front;
}

void take(int socket, std::span<char> copied) {
    while (::recv(socket, copied.data(), copied.size(), MSG_DONTWAIT) < 0 && errno == EINTR) {
    }
}

void refuse_descriptors(int socket) {
    int const no = 0;
    (void)::setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no);
}

/// What a helper has to do, in its copy of our memory.
struct Quarantine::Job {
    Kind kind = Kind::discard;
    int socket = -1;
    int control = -1;
    std::span<int const> kept;  // in ascending order
};

Quarantine::Quarantine(EventLoop& loop) : loop_(loop), retry_timer_(loop, [this] { start_helpers(); }) {
    reap_strays();
}

/// Helpers end by themselves. Sockets that still wait to be closed are left to the end of the process, which waits for
/// nobody.
Quarantine::~Quarantine() {
    for (UniqueFd& socket : closing_)
        (void)socket.release();
}

Quarantine::Ticket Quarantine::add(Kind kind, int socket, std::function<void(UniqueFd)> answered) {
    wishes_.push_back({++last_id_, kind, socket, std::move(answered)});
    Ticket ticket{this, last_id_};
    start_helpers();
    return ticket;
}

Quarantine::Ticket Quarantine::discard(int socket, std::function<void()> taken) {
    return add(Kind::discard, socket, [taken = std::move(taken)](UniqueFd) { taken(); });
}

Quarantine::Ticket Quarantine::receive(int socket, std::function<void(UniqueFd)> got) {
    return add(Kind::receive, socket, std::move(got));
}

void Quarantine::close(UniqueFd socket) {
    if (!socket) return;
    for (auto const& helper : helpers_) {
        if (helper->wish.socket == socket.get()) helper->wish.socket = -1;  // the number will belong to another one
    }
    (void)::shutdown(socket.get(), SHUT_RD);
    if (is_empty(socket.get())) return;
    closing_.push_back(std::move(socket));
    start_helpers();
}

void Quarantine::forget(std::uint64_t id) {
    std::erase_if(wishes_, [id](Wish const& wish) { return wish.id == id; });
    for (auto const& helper : helpers_) {
        if (helper->wish.id == id) helper->wish.answered = nullptr;
    }
}

bool Quarantine::is_in_hand(int socket) const {
    return std::ranges::any_of(helpers_, [socket](auto const& helper) { return helper->wish.socket == socket; });
}

void Quarantine::start_helpers() {
    while (helpers_.size() < most_helpers && start_one()) {
    }
}

/// Starts one helper. Returns whether there was something to do and a helper could start.
bool Quarantine::start_one() {
    Wish next{0, Kind::close, -1, nullptr};
    auto wish = wishes_.end();
    if (closing_.empty()) {
        wish = std::ranges::find_if(wishes_, [this](Wish const& one) { return !is_in_hand(one.socket); });
        if (wish == wishes_.end()) return false;
        next = *wish;
    }
    if (!start(next)) {
        retry_timer_.arm(std::chrono::steady_clock::now() + between_tries);  // no memory, or the limit of processes
        return false;
    }
    if (wish != wishes_.end()) wishes_.erase(wish);
    return true;
}

/// Starts a helper for the wish; for Kind::close, one for all sockets that are to be closed.
bool Quarantine::start(Wish& wish) {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
    auto helper = std::make_unique<Helper>();
    helper->control = UniqueFd{ends[0]};
    UniqueFd theirs{ends[1]};
    std::vector<int> kept{theirs.get()};
    if (wish.kind == Kind::close) {
        for (UniqueFd const& socket : closing_)
            kept.push_back(socket.get());
    } else {
        kept.push_back(wish.socket);
    }
    std::ranges::sort(kept);
    helpers_.reserve(helpers_.size() + 1);  // nothing may fail once there is a child

    int pidfd = -1;
    Job const job{wish.kind, wish.socket, theirs.get(), kept};
    // Its end sends no signal, so nobody takes it for a process of a program.
    raw::Value pid = raw::call(SYS_clone, CLONE_PIDFD, 0, raw::address(&pidfd));
    if (pid == 0) be_helper(job);
    if (pid < 0) return false;
    helper->pid = static_cast<pid_t>(pid);
    helper->end = UniqueFd{pidfd};
    helper->wish = std::move(wish);
    theirs = {};
    if (helper->wish.kind == Kind::close) {
        closing_.clear();  // the helper has them all, so we never close the last one
        char const go = 0;
        (void)::send(helper->control.get(), &go, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    Helper* const at = helper.get();
    helpers_.push_back(std::move(helper));
    if (auto watch = loop_.on_readable(at->control.get(), [this, at] { answered(*at); }))
        at->control_watch = std::move(*watch);
    if (at->end) {
        if (auto watch = loop_.on_readable(at->end.get(), [this, at] { ended(*at); }))
            at->end_watch = std::move(*watch);
    }
    return true;
}

/// Does the work of a helper. Its end closes what it has; the end of a process does not wait for TCP sockets.
void Quarantine::be_helper(Job const& job) {
    set_end();
    long next = 0;
    for (int const fd : job.kept) {
        close_between(next, fd - 1L);
        next = fd + 1L;
    }
    close_between(next, ~0U);
    give_up_rights();
    char go = 0;
    switch (job.kind) {
        case Kind::discard:
            (void)take_message(job.socket);
            answer(job.control, -1);
            break;
        case Kind::receive: {
            int const passed = take_message(job.socket);
            answer(job.control, passed >= 0 && is_connected_stream(passed) ? passed : -1);
            break;
        }
        case Kind::close: (void)raw::call(SYS_read, job.control, raw::address(&go), 1); break;
    }
    raw::exit(0);
}

/// Called when the helper has taken the message, or will not because it ends.
void Quarantine::answered(Helper& helper) {
    std::optional<UniqueFd> passed = read_answer(helper.control.get());
    if (!passed) return;
    helper.control_watch = {};
    auto const call = std::exchange(helper.wish.answered, nullptr);
    bool const has_no_end = !helper.end;
    if (call) call(std::move(*passed));
    // Without a pidfd nothing tells when the helper ends: it is reaped together with a later one.
    if (has_no_end) ended(helper);
}

void Quarantine::ended(Helper& helper) {
    if (helper.wish.answered) answered(helper);
    while (::waitpid(helper.pid, nullptr, __WALL | WNOHANG) < 0 && errno == EINTR) {
    }
    std::erase_if(helpers_, [&helper](auto const& one) { return one.get() == &helper; });
    reap_strays();
    start_helpers();
}

}  // namespace triton::process
