#include "host/parts/run_program.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/pipe.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

extern char** environ;

namespace triton::parts {

namespace {

constexpr std::size_t most_output = 64 << 10;

/// The file actions of a spawn; the destructor frees them.
class FileActions {
public:
    FileActions() { posix_spawn_file_actions_init(&actions_); }
    FileActions(FileActions const&) = delete;
    FileActions& operator=(FileActions const&) = delete;
    ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
    void duplicate(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
    [[nodiscard]] posix_spawn_file_actions_t const* get() const { return &actions_; }

private:
    posix_spawn_file_actions_t actions_{};
};

/// A running program and its descriptors.
struct Started {
    pid_t pid = -1;
    UniqueFd output;
};

Result<Started> start(std::vector<std::string> const& words, int input) {
    std::string const what = "run " + words.front();
    auto [reader, writer] = TRY(make_pipe());
    Started started{.output = std::move(reader)};
    FileActions actions;
    actions.duplicate(input, STDIN_FILENO);
    actions.duplicate(writer.get(), STDOUT_FILENO);
    actions.duplicate(writer.get(), STDERR_FILENO);
    std::vector<char*> arguments;
    for (std::string const& word : words)
        arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int const err =
        ::posix_spawnp(&started.pid, words.front().c_str(), actions.get(), nullptr, arguments.data(), environ);
    if (err != 0) return fail(err, what);
    return started;
}

/// Waits until there is something to read. Returns false when nobody reads from the pipe `reader` any more (-1: no
/// pipe). Source: poll(2): a pipe without a reader has POLLERR.
bool wait_for_output(int fd, int reader) {
    std::array<pollfd, 2> ready{{{fd, POLLIN, 0}, {reader, 0, 0}}};
    while (::poll(ready.data(), ready.size(), -1) < 0)
        if (errno != EINTR) return false;
    return (ready[1].revents & POLLERR) == 0;
}

/// Returns whether all has been read.
bool read_output(int fd, int reader, std::function<bool(std::string_view piece)> const& take) {
    std::array<char, 4096> buffer{};
    while (wait_for_output(fd, reader)) {
        ssize_t const got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return true;
        if (!take(std::string_view(buffer.data(), static_cast<std::size_t>(got)))) return false;
    }
    return false;
}

Result<int> exit_code_of(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return fail(errno, "wait for the end of a program");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<ProgramEnd> run_program(std::vector<std::string> const& words, std::string_view input) {
    UniqueFd const document{::memfd_create("input", MFD_CLOEXEC)};
    if (!document || !write_all(document.get(), input) || ::lseek(document.get(), 0, SEEK_SET) != 0)
        return fail(errno, "run " + words.front());
    Started const started = TRY(start(words, document.get()));
    ProgramEnd end;
    // everything beyond the limit is read and dropped, or the program would wait for us
    read_output(started.output.get(), -1, [&end](std::string_view piece) {
        end.output.append(piece.substr(0, most_output - end.output.size()));
        return true;
    });
    end.exit_code = TRY(exit_code_of(started.pid));
    return end;
}

Result<std::optional<int>> stream_program(std::vector<std::string> const& words, int reader,
                                          std::function<bool(std::string_view piece)> const& take) {
    UniqueFd const nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    if (!nothing) return fail(errno, "open /dev/null");
    Started const started = TRY(start(words, nothing.get()));
    bool const is_complete = read_output(started.output.get(), reader, take);
    if (!is_complete) ::kill(started.pid, SIGTERM);  // it may have nothing to write for ever
    int const code = TRY(exit_code_of(started.pid));
    return is_complete ? std::optional(code) : std::nullopt;
}

}  // namespace triton::parts
