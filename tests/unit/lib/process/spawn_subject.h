#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/limits.h"
#include "config/substitution.h"
#include "lib/base/unique_fd.h"
#include "lib/process/spawn.h"

namespace triton::launcher::test {

/// What became of one start.
struct Outcome {
    std::string output;  ///< of stdout
    int status = -1;     ///< as of waitpid(2)
    std::optional<process::SpawnError> error;
    int pid = 0;

    [[nodiscard]] bool is_ok() const { return !error && status == 0; }
};

inline std::string read_to_end(int fd) {
    std::string text;
    char bytes[4096];
    for (;;) {
        ssize_t const size = ::read(fd, bytes, sizeof bytes);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return text;
        text.append(bytes, static_cast<std::size_t>(size));
    }
}

inline process::CommandTemplate literals(std::vector<std::string> const& arguments) {
    config::ProcessConfiguration configuration;
    configuration.version = "1";
    for (std::string const& argument : arguments)
        configuration.arguments.push_back({.value = argument});
    return config::substitute(configuration, config::Variables{{}, nullptr}, 9).value();
}

inline std::shared_ptr<process::StartPlan const> plan_of(std::string program, std::vector<std::string> const& arguments,
                                                         process::Attributes attributes = {},
                                                         std::vector<std::string> environment = {
                                                             "PATH=/usr/bin:/bin"}) {
    return std::make_shared<process::StartPlan const>(std::move(program), std::move(environment), literals(arguments),
                                                      process::NumberedParts{}, std::move(attributes));
}

inline Outcome finish(process::Spawner& spawner, std::expected<process::Pid, process::SpawnError> started, int output) {
    Outcome outcome;
    if (!started) {
        outcome.error = started.error();
        return outcome;
    }
    outcome.pid = static_cast<int>(*started);
    if (output >= 0) outcome.output = read_to_end(output);
    while (::waitpid(outcome.pid, &outcome.status, 0) < 0 && errno == EINTR) {
    }
    outcome.error = spawner.take_error(*started);
    return outcome;
}

inline Outcome run(process::Spawner& spawner, std::shared_ptr<process::StartPlan const> const& plan,
                   process::StartFiles files = {}, process::ProcessNumber number = process::ProcessNumber{1}) {
    // What the test was started with is nobody's business: numbers of descriptors are compared.
    (void)::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    UniqueFd const read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    if (files.out < 0) files.out = write_end.get();
    auto const started = spawner.spawn(plan, number, files);
    write_end = UniqueFd{};
    return finish(spawner, started, read_end.get());
}

inline Outcome run(std::shared_ptr<process::StartPlan const> const& plan, process::StartFiles files = {}) {
    process::Spawner spawner({}, 0);
    return run(spawner, plan, files);
}

/// A script of the shell, with these attributes.
inline Outcome run_shell(std::string const& script, process::Attributes attributes = {},
                         process::StartFiles const& files = {}) {
    return run(plan_of("/bin/sh", {"-c", script}, std::move(attributes)), files);
}

/// One line of /proc/self/status: "Umask", "CapBnd".
inline std::string status_line(std::string const& name, process::Attributes attributes = {},
                               process::StartFiles const& files = {}) {
    std::string const key = name + ":\t";
    Outcome const outcome = run(plan_of("/bin/cat", {"/proc/self/status"}, std::move(attributes)), files);
    std::size_t const at = ("\n" + outcome.output).find("\n" + key);
    if (at == std::string::npos) return "no " + name + ": " + outcome.output;
    std::string const rest = outcome.output.substr(at + key.size());
    return rest.substr(0, rest.find('\n'));
}

/// A directory of its own, that all may enter.
class Directory {
public:
    Directory() : path_("/tmp/triton-spawn.XXXXXX") {
        if (!::mkdtemp(path_.data()) || ::chmod(path_.c_str(), 0755) != 0) path_.clear();
    }
    ~Directory() { (void)std::system(("rm -rf '" + path_ + "'").c_str()); }
    Directory(Directory const&) = delete;
    Directory& operator=(Directory const&) = delete;
    [[nodiscard]] std::string const& path() const { return path_; }

private:
    std::string path_;
};

/// Runs `test` in a process of its own that is user 65534 without any privilege, and gives its text back.
template <class Test>
std::string as_nobody(Test test) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
    UniqueFd const read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    pid_t const child = ::fork();
    if (child == 0) {
        if (::setgroups(0, nullptr) != 0 || ::setresgid(65534, 65534, 65534) != 0 ||
            ::setresuid(65534, 65534, 65534) != 0)
            ::_exit(1);
        std::string const text = test();
        (void)!::write(write_end.get(), text.data(), text.size());
        ::_exit(0);
    }
    write_end = UniqueFd{};
    std::string text = read_to_end(read_end.get());
    int status = -1;
    (void)::waitpid(child, &status, 0);
    return text;
}

/// What this process has inherited itself must not pass for ours.
inline void close_on_exec_for_all() { (void)::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); }

inline bool is_root() { return ::geteuid() == 0; }

}  // namespace triton::launcher::test

#define SKIP_UNLESS_ROOT() \
    if (!::triton::launcher::test::is_root()) GTEST_SKIP() << "needs root: it changes what only root may change"
