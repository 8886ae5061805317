#include "host/parts/run_program.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
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

void read_output(int fd, std::function<bool(std::string_view piece)> const& take) {
    std::array<char, 4096> buffer{};
    for (;;) {
        ssize_t const got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 || !take(std::string_view(buffer.data(), static_cast<std::size_t>(got)))) return;
    }
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
    read_output(started.output.get(), [&end](std::string_view piece) {
        end.output.append(piece.substr(0, most_output - end.output.size()));
        return true;
    });
    end.exit_code = TRY(exit_code_of(started.pid));
    return end;
}

Result<int> stream_program(std::vector<std::string> const& words,
                           std::function<bool(std::string_view piece)> const& take) {
    UniqueFd const nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    if (!nothing) return fail(errno, "open /dev/null");
    Started started = TRY(start(words, nothing.get()));
    read_output(started.output.get(), take);
    started.output = UniqueFd();  // further writes get SIGPIPE
    return exit_code_of(started.pid);
}

}  // namespace triton::parts
