// Plays a role of the wall that is in an attacker's hands: it is started as one, confines itself as one, and then tries
// what it is told to. One program is both sides: run as "role_probe ROLE ATTEMPT [TARGET]" it starts itself, by its
// name triton-ROLE in the same directory, and prints what came of the attempt.

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/role/detached_mount.h"
#include "host/role/process.h"
#include "host/role/sandbox.h"

namespace {

using namespace triton;
using namespace triton::role;

/// Attempts return 0 when they succeed, and -1 with errno when not.
struct Attempt {
    char const* name;
    long (*make)(int lent);  // `lent`: a descriptor that it was handed: a directory of the host
};

/// The other descriptor that it was handed: a file of the host, as triton-unpack gets its archive.
int blob = -1;

long open2(int directory, char const* path, std::uint64_t flags) {
    open_how how{};
    how.flags = flags;
    how.mode = (flags & O_CREAT) != 0 ? 0600 : 0;
    return ::syscall(SYS_openat2, directory, path, &how, sizeof how);
}

long connect_to_loopback() {
    int const fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(1);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
}
long connect_to_abstract() {
    int const fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, "triton-wall-test", 16);
    return ::connect(fd, reinterpret_cast<sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 17));
}
long execute() {
    std::array<char*, 1> none{};
    return ::execve("/bin/true", none.data(), none.data());
}
long fork_child() {
    pid_t const child = ::fork();
    if (child == 0) ::_exit(0);
    return child;
}
long write_much(int directory) {
    int const fd = ::openat(directory, "much", O_CREAT | O_WRONLY, 0600);
    return fd < 0 ? -1 : ::ftruncate(fd, 1LL << 40);
}
long use_memory() {
    void* const memory =
        ::mmap(nullptr, 8ULL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? -1 : 0;
}
long make_code() {
    void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? -1 : 0;
}
long use_descriptors(int directory) {
    for (int i = 0; i < 5000; ++i)
        if (open2(directory, ".", O_PATH) < 0) return -1;
    return 0;
}
long duplicate_descriptors() {
    for (int i = 0; i < 5000; ++i)
        if (::dup(channel_descriptor) < 0) return -1;
    return 0;
}
long start_threads() {
    pthread_attr_t small{};
    ::pthread_attr_init(&small);
    ::pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 0; i < 1000; ++i) {
        pthread_t thread{};
        auto const wait = [](void*) -> void* { return ::poll(nullptr, 0, -1), nullptr; };
        if ((errno = ::pthread_create(&thread, &small, wait, nullptr)) != 0) return -1;
    }
    return 0;
}
/// Changes the times of a file to what they are.
long touch(int fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) return -1;
    std::array<timespec, 2> const same{status.st_atim, status.st_mtim};
    return ::futimens(fd, same.data());
}
/// Takes blocks that the size of the file does not show, in the file that it writes.
long reserve(int directory) {
    int const fd = static_cast<int>(open2(directory, "reserved", O_CREAT | O_WRONLY));
    return ::fallocate(fd < 0 ? STDIN_FILENO : fd, FALLOC_FL_KEEP_SIZE, 0, 64 << 20);
}
long start_thread() {
    std::thread([] {}).join();
    return 0;
}

constexpr std::array attempts{
    Attempt{"nothing", [](int) -> long { return 0; }},
    Attempt{"thread", [](int) { return start_thread(); }},
    Attempt{"open", [](int) -> long { return ::open("/etc/passwd", O_RDONLY); }},
    Attempt{"openat2", [](int) -> long { return open2(AT_FDCWD, "/etc/passwd", O_RDONLY); }},
    Attempt{"open-proc", [](int) -> long { return open2(AT_FDCWD, "/proc/self/status", O_RDONLY); }},
    Attempt{"escape", [](int lent) -> long { return open2(lent, "../outside", O_RDONLY); }},
    Attempt{"escape-far", [](int lent) -> long { return open2(lent, "../../../../../../../etc/passwd", O_RDONLY); }},
    Attempt{"escape-root", [](int) -> long { return open2(AT_FDCWD, "/../outside", O_RDONLY); }},
    Attempt{"chmod-outside", [](int lent) -> long { return ::fchmodat(lent, "../outside", 0777, 0); }},
    Attempt{"create-inside", [](int lent) -> long { return open2(lent, "inside", O_CREAT | O_WRONLY | O_EXCL); }},
    Attempt{"chown-inside",
            [](int lent) -> long { return ::fchownat(lent, "file", 12345, 54321, AT_SYMLINK_NOFOLLOW); }},
    Attempt{"create-root", [](int) -> long { return open2(AT_FDCWD, "/new", O_CREAT | O_WRONLY); }},
    Attempt{"device", [](int lent) -> long { return ::mknodat(lent, "null", S_IFCHR | 0666, makedev(1, 3)); }},
    Attempt{"connect", [](int) { return connect_to_loopback(); }},
    Attempt{"abstract", [](int) { return connect_to_abstract(); }},
    Attempt{"netlink", [](int) -> long { return ::socket(AF_NETLINK, SOCK_RAW, 0); }},
    Attempt{"netlink-diag", [](int) -> long { return ::socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG); }},
    Attempt{"packet", [](int) -> long { return ::socket(AF_PACKET, SOCK_RAW, 0); }},
    Attempt{"ptrace", [](int) -> long { return ::ptrace(PTRACE_ATTACH, 1, nullptr, nullptr); }},
    Attempt{"read-memory", [](int) -> long { return ::process_vm_readv(1, nullptr, 0, nullptr, 0, 0); }},
    Attempt{"exec", [](int) { return execute(); }},
    Attempt{"fork", [](int) { return fork_child(); }},
    Attempt{"mount", [](int) -> long { return ::mount("tmpfs", "/", "tmpfs", 0, nullptr); }},
    Attempt{"unshare", [](int) -> long { return ::unshare(CLONE_NEWUSER); }},
    Attempt{"chroot", [](int) -> long { return ::chroot("/"); }},
    Attempt{"kill", [](int) -> long { return ::kill(-1, 0); }},
    Attempt{"setuid", [](int) -> long { return ::setuid(0); }},
    Attempt{"bpf", [](int) -> long { return ::syscall(SYS_bpf, 0, nullptr, 0); }},
    Attempt{"io-uring", [](int) -> long { return ::syscall(SYS_io_uring_setup, 1, nullptr); }},
    Attempt{"keyctl", [](int) -> long { return ::syscall(SYS_keyctl, 0, 0, 0, 0, 0); }},
    Attempt{"userfaultfd", [](int) -> long { return ::syscall(SYS_userfaultfd, 0); }},
    Attempt{"perf", [](int) -> long { return ::syscall(SYS_perf_event_open, nullptr, 0, 0, 0, 0); }},
    Attempt{"terminal", [](int) -> long { return ::ioctl(0, TIOCSTI, "x"); }},
    Attempt{"code", [](int) { return make_code(); }},
    Attempt{"large-file", [](int lent) { return write_much(lent); }},
    Attempt{"memory", [](int) { return use_memory(); }},
    Attempt{"descriptors", [](int lent) { return use_descriptors(lent); }},
    Attempt{"duplicates", [](int) { return duplicate_descriptors(); }},
    Attempt{"threads", [](int) { return start_threads(); }},
    Attempt{"memory-file", [](int) -> long { return ::memfd_create("x", 0); }},
    Attempt{"reserve-blocks", [](int lent) { return reserve(lent); }},
    // /dev/null gets what it has already: it is the host's
    Attempt{"chmod-null", [](int) -> long { return ::fchmod(0, 0666); }},
    Attempt{"chown-null", [](int) -> long { return ::fchown(1, 0, 0); }},
    Attempt{"attribute-null", [](int) -> long { return ::fsetxattr(2, "security.capability", "x", 1, 0); }},
    Attempt{"times-null", [](int) { return touch(0); }},
    Attempt{"chmod-blob", [](int) -> long { return ::fchmod(blob, 0777); }},
    Attempt{"chown-blob", [](int) -> long { return ::fchown(blob, 1, 1); }},
    Attempt{"chown-blob-at", [](int) -> long { return ::fchownat(blob, "", 1, 1, AT_EMPTY_PATH); }},
    Attempt{"attribute-blob", [](int) -> long { return ::fsetxattr(blob, "user.x", "x", 1, 0); }},
    Attempt{"no-attribute-blob", [](int) -> long { return ::fremovexattr(blob, "user.kept"); }},
    Attempt{"times-blob", [](int) { return touch(blob); }},
    Attempt{"cut-blob", [](int) -> long { return ::ftruncate(blob, 0); }},
    Attempt{"flags-blob", [](int) -> long { return ::ioctl(blob, FS_IOC_SETFLAGS, nullptr); }},
    Attempt{"link-blob", [](int lent) -> long { return ::linkat(blob, "", lent, "stolen", AT_EMPTY_PATH); }},
    Attempt{"core", [](int) -> long { return ::raise(SIGSEGV); }},
};

TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

constexpr std::array role_names{"download", "verify", "unpack"};

void be_role(Role role, std::span<char* const> arguments) {
    auto started = take_over(role, arguments);
    if (!started) ::_exit(3);
    auto packet = started->channel.receive(soon(), 2);
    if (!packet) ::_exit(4);
    UniqueFd lent;
    Confinement confinement{.role = role};
    if (packet->descriptors.size() == 2) {
        lent = std::move(packet->descriptors.front());
        blob = packet->descriptors.back().get();
    }
    if (role == Role::unpack) {
        confinement.root = std::move(lent);
        confinement.most_file_bytes = 1 << 20;
    }
    if (role == Role::download) confinement.readable = {"/etc/hostname", "/etc/ssl"};
    auto const confined = confine(std::move(confinement), *started);
    if (!confined) {
        (void)started->channel.send(confined.error().text(), {}, soon());
        ::_exit(5);
    }
    if (role == Role::unpack) lent = UniqueFd(static_cast<int>(open2(AT_FDCWD, "/", O_PATH | O_DIRECTORY)));
    for (Attempt const& attempt : attempts) {
        if (packet->text != attempt.name) continue;
        long const result = attempt.make(lent.get());
        int const error = errno;
        (void)started->channel.send(result >= 0 ? "succeeded" : errno_text(error), {}, soon());
    }
    ::_exit(0);
}

int drive(Role role, char const* attempt, char const* target) {
    auto process = RoleProcess::start(role);
    if (!process) return std::printf("not started: %s\n", process.error().text().c_str()), 1;
    UniqueFd lent;
    UniqueFd archive;
    if (target) {
        UniqueFd directory(::open(target, O_PATH | O_DIRECTORY | O_CLOEXEC));
        auto mount = detached_mount(directory.get(), target);
        if (!mount) return std::printf("%s\n", mount.error().text().c_str()), 1;
        UniqueFd const file(::openat(directory.get(), "../outside", O_RDONLY | O_CLOEXEC));
        auto opened = open_read_only_mount(file.get(), O_RDONLY, "outside");
        if (!opened) return std::printf("%s\n", opened.error().text().c_str()), 1;
        lent = role == Role::unpack ? std::move(*mount) : std::move(directory);
        archive = std::move(*opened);
    }
    std::array const fds{lent.get(), archive.get()};
    (void)process->channel().send(attempt, std::span(fds).first(target ? 2 : 0), soon());
    if (auto const answer = process->channel().receive(soon())) std::printf("%s\n", answer->text.c_str());
    std::fflush(stdout);
    auto const end = process->finish(soon());
    std::printf("%s\n", end ? "ended well" : end.error().text().c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string const name = std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1);
    for (std::size_t i = 0; i < role_names.size(); ++i) {
        if (name == program_of(static_cast<Role>(i)))
            be_role(static_cast<Role>(i), std::span(argv, static_cast<std::size_t>(argc)));
        if (argc >= 3 && std::string(argv[1]) == role_names[i])
            return drive(static_cast<Role>(i), argv[2], argc > 3 ? argv[3] : nullptr);
    }
    return 2;
}
