#include "host/unpack/produce.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/pipe.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"

namespace triton::unpack {

namespace {

constexpr std::uint64_t program_memory = std::uint64_t{1} << 30;
constexpr std::uint32_t program_files = 64;
constexpr milliseconds look_pause{100};
constexpr int exit_not_confined = 126;
constexpr int exit_not_executed = 127;
constexpr std::size_t longest_output = 4096;

// Names in the root of the sandbox.
constexpr char image_name[] = "image";
constexpr char target_name[] = "target";
constexpr char seed_directory[] = "seed";

/// A program of the system with everything that it sees.
struct Program {
    std::string path;
    std::vector<std::string> arguments;
    std::vector<std::string> environment = {};
    role::Confinement confinement = {};
};

std::string program_name(Program const& program) { return program.path.substr(program.path.rfind('/') + 1); }

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts)
        all.push_back(text.data());
    all.push_back(nullptr);
    return all;
}

/// Becomes the program, or exits. `output`: a pipe that does not wait for a reader.
[[noreturn]] void become(Program& program, role::Started const& started, int output) {
    std::vector<char*> const arguments = pointers(program.arguments);
    std::vector<char*> const environment = pointers(program.environment);
    // The root is changed for a whole mount namespace, so it gets its own.
    Result<> confined = ::unshare(CLONE_NEWNS) == 0 ? role::confine(std::move(program.confinement), started)
                                                    : fail(errno, "get a mount namespace");
    if (!confined) {
        (void)write_all(output, confined.error().text());
        ::_exit(exit_not_confined);
    }
    if (::dup2(output, STDOUT_FILENO) < 0 || ::dup2(output, STDERR_FILENO) < 0) ::_exit(exit_not_confined);
    ::execve(program.path.c_str(), arguments.data(), environment.data());
    ::_exit(exit_not_executed);
}

std::uint64_t allocated(int target) {
    struct stat status{};
    return ::fstat(target, &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * 512 : 0;
}

/// Waits for the end of the program, and reports ten times a second that it is still there. Returns its wait status.
Result<int> wait_for_program(pid_t child, role::Channel& channel, int target, TimePoint deadline) {
    for (;;) {
        int status = 0;
        pid_t const ended = ::waitpid(child, &status, WNOHANG);
        if (ended < 0 && errno != EINTR) return fail(errno, "wait for a program");
        if (ended == child) return status;
        if (steady_now() >= deadline) return fail(ErrorKind::timeout, "it takes longer than it may");
        // If the library is not reading, it gets the next message.
        (void)role::send(channel, role::Unpacking{.read = 0, .entries = 0, .bytes = allocated(target)}, steady_now());
        (void)::poll(nullptr, 0, static_cast<int>(look_pause.count()));
    }
}

std::string read_output(int pipe) {
    std::string text(longest_output, '\0');
    ssize_t const got = ::read(pipe, text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.pop_back();
    // What matters is said last.
    return text.substr(text.rfind('\n') + 1);
}

std::unexpected<Error> failure_of(Program const& program, int status, std::string const& output) {
    std::string const name = program_name(program);
    if (WIFSIGNALED(status)) {
        // That one comes from outside, as when memory ends: it says nothing about the input.
        bool const is_from_outside = WTERMSIG(status) == SIGKILL;
        return fail(is_from_outside ? ErrorKind::unavailable : ErrorKind::invalid,
                    name + " was killed by signal " + std::to_string(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) == exit_not_confined) return fail(ErrorKind::internal, "confine " + name, output);
    if (WEXITSTATUS(status) == exit_not_executed) return fail(ErrorKind::internal, name + " could not be executed");
    bool const is_full = output.contains("No space left on device") || output.contains("Disk quota exceeded");
    std::string const reason = output.empty() ? "it exited with code " + std::to_string(WEXITSTATUS(status)) : output;
    return fail(is_full ? ErrorKind::exhausted : ErrorKind::invalid, "run " + name, reason);
}

/// Runs a program to its end. `target`: the file that it makes, borrowed.
Result<role::Produced> run_program(role::Started& started, Program program, int target, TimePoint deadline) {
    if (::access(program.path.c_str(), X_OK) != 0)
        return fail(ErrorKind::unsupported, program_name(program) + " is not installed");
    Pipe output = TRY(make_pipe());
    if (::fcntl(output.writer.get(), F_SETFL, O_NONBLOCK) != 0) return fail(errno, "make a pipe");
    pid_t const child = ::fork();
    if (child < 0) return fail(errno, "start " + program_name(program));
    if (child == 0) become(program, started, output.writer.get());
    output.writer = UniqueFd();
    auto const status = wait_for_program(child, started.channel, target, deadline);
    if (!status) ::kill(child, SIGKILL);  // and it ends with this process at the latest
    TRY(role::confine({.role = role::Role::unpack}, started));
    if (!status) return std::unexpected(status.error());
    std::string const text = read_output(output.reader.get());
    if (!WIFEXITED(*status) || WEXITSTATUS(*status) != 0) return failure_of(program, *status, text);
    struct stat facts{};
    if (::fstat(target, &facts) != 0) return fail(errno, "look at the target");
    return role::Produced{static_cast<std::uint64_t>(facts.st_size)};
}

/// What qemu-img calls it.
std::string driver_of(disk::Format format) {
    switch (format) {
        case disk::Format::raw:
        case disk::Format::iso: return "raw";
        case disk::Format::vhd: return "vpc";
        case disk::Format::qcow:
        case disk::Format::qcow2:
        case disk::Format::vmdk:
        case disk::Format::vhdx: return std::string(disk::format_names[static_cast<std::size_t>(format)]);
    }
    std::unreachable();
}

role::Confinement program_confinement(std::uint64_t most_bytes) {
    return {.role = role::Role::unpack,
            .executes = true,
            .most_file_bytes = most_bytes,
            .most_memory = program_memory,
            .most_open_files = program_files};
}

/// Another descriptor of the same file.
Result<UniqueFd> duplicate(int fd) {
    UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) return fail(errno, "duplicate a descriptor");
    return copy;
}

}  // namespace

Result<role::Produced> convert_disk(role::Started& started, role::ConvertDisk const& job,
                                    std::vector<UniqueFd> descriptors) {
    UniqueFd const target = TRY(duplicate(descriptors[1].get()));
    Program program{.path = "/usr/bin/qemu-img",
                    .arguments = {"qemu-img", "convert", "-n", "--target-is-zero", "-f", driver_of(job.format), "-O",
                                  "raw", std::string("/") + image_name, std::string("/") + target_name}};
    program.confinement = program_confinement(job.bytes);
    program.confinement.lent.push_back({.name = image_name, .mount = std::move(descriptors[0])});
    program.confinement.lent.push_back({.name = target_name, .mount = std::move(descriptors[1]), .is_writable = true});
    return run_program(started, std::move(program), target.get(), steady_now() + std::chrono::seconds(job.seconds));
}

Result<role::Produced> resize_disk(role::Started& started, role::ResizeDisk const& job,
                                   std::vector<UniqueFd> descriptors) {
    static constexpr std::chrono::minutes patience{10};
    static constexpr std::uint64_t bytes_of_a_table_entry = 4096;  // and more: what the image has in addition
    static constexpr std::uint64_t least_room = 64 << 20;
    UniqueFd const target = TRY(duplicate(descriptors[0].get()));
    struct stat facts{};
    if (::fstat(target.get(), &facts) != 0) return fail(errno, "look at the image");
    Program program{.path = "/usr/bin/qemu-img",
                    .arguments = {"qemu-img", "resize", "-q", "-f", driver_of(job.format),
                                  std::string("/") + target_name, std::to_string(job.bytes)}};
    program.confinement = program_confinement(static_cast<std::uint64_t>(facts.st_size) +
                                              job.bytes / bytes_of_a_table_entry + least_room);
    program.confinement.lent.push_back({.name = target_name, .mount = std::move(descriptors[0]), .is_writable = true});
    return run_program(started, std::move(program), target.get(), steady_now() + patience);
}

Result<role::Produced> make_seed(role::Started& started, role::MakeSeed const& job, std::vector<UniqueFd> descriptors) {
    static constexpr std::chrono::minutes patience{5};
    UniqueFd const target = TRY(duplicate(descriptors[0].get()));
    std::string const directory = std::string("/") + seed_directory;
    std::string const path = std::string(seed_directory) + "/";
    // The same bytes for the same input: all dates are those of 1970, and so is what xorriso derives from the time.
    Program program{
        .path = "/usr/bin/xorriso",
        .arguments = {"xorriso", "-as", "mkisofs", "-quiet", "-V", "cidata", "-J", "-r", "--set_all_file_dates",
                      "1970010100000100", "-o", std::string("/") + target_name, directory},
        .environment = {"SOURCE_DATE_EPOCH=1", "TZ=UTC", "HOME=/"}};
    program.confinement = program_confinement(role::largest_seed);
    program.confinement.files.emplace_back(path + "meta-data", job.meta_data);
    program.confinement.files.emplace_back(
        path + "user-data", TRY(read_open_file(descriptors[1].get(), "the user data", role::largest_seed_file)));
    if (descriptors.size() > 2)
        program.confinement.files.emplace_back(
            path + "network-config",
            TRY(read_open_file(descriptors[2].get(), "the network's configuration", role::largest_seed_file)));
    program.confinement.lent.push_back({.name = target_name, .mount = std::move(descriptors[0]), .is_writable = true});
    return run_program(started, std::move(program), target.get(), steady_now() + patience);
}

}  // namespace triton::unpack
