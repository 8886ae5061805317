#include "programs/vmadm/run_program.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

extern char** environ;

namespace triton::program {

namespace {

constexpr std::size_t most_output = 64 << 10;

/// The file actions of a spawn; freed at the end.
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

/// What comes until the end; what is beyond the limit is read and forgotten, or the program would wait for us.
std::string read_output(int fd) {
    std::string output;
    std::array<char, 4096> buffer{};
    for (;;) {
        ssize_t const got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return output;
        std::size_t const room = most_output - output.size();
        output.append(buffer.data(), std::min(static_cast<std::size_t>(got), room));
    }
}

}  // namespace

Result<ProgramEnd> run_program(std::vector<std::string> const& words, std::string_view input) {
    std::string const what = "run " + words.front();
    UniqueFd const document{::memfd_create("input", MFD_CLOEXEC)};
    std::array<int, 2> ends{};
    if (!document || !write_all(document.get(), input) || ::lseek(document.get(), 0, SEEK_SET) != 0)
        return fail(errno, what);
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno, what);
    UniqueFd const reader{ends[0]};
    UniqueFd writer{ends[1]};
    FileActions actions;
    actions.duplicate(document.get(), STDIN_FILENO);
    actions.duplicate(writer.get(), STDOUT_FILENO);
    actions.duplicate(writer.get(), STDERR_FILENO);
    std::vector<char*> arguments;
    for (std::string const& word : words)
        arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t child = -1;
    int const err = ::posix_spawn(&child, words.front().c_str(), actions.get(), nullptr, arguments.data(), environ);
    if (err != 0) return fail(err, what);
    writer = UniqueFd();
    ProgramEnd end{.output = read_output(reader.get())};
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return end;
}

}  // namespace triton::program
