#include "launcher/plan/pattern_check.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <span>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/pipe.h"
#include "lib/json/text.h"

namespace triton::launcher {

namespace {

constexpr std::size_t most_at_once = 64;  // 64 KiB of arguments
constexpr std::size_t most_output = 256 * 1024;
constexpr std::size_t shown_bytes = 128;
constexpr unsigned seconds_to_answer = 5;  // a whole configuration's worth of patterns takes milliseconds
constexpr int not_executed = 127;

struct Answer {
    int status = 0;
    std::string text;
};

/// Runs between fork and execve, hence makes only system calls.
[[noreturn]] void become(char const* path, char* const* arguments, int out) noexcept {
    (void)::dup2(out, STDOUT_FILENO);
    (void)::alarm(seconds_to_answer);
    char const* const environment[] = {nullptr};
    ::execve(path, arguments, const_cast<char**>(environment));
    int const error = errno;
    (void)!::write(STDOUT_FILENO, &error, sizeof error);
    ::_exit(not_executed);
}

std::string read_all(int fd) {
    std::string text;
    std::array<char, 4096> piece;
    for (;;) {
        ssize_t const size = ::read(fd, piece.data(), piece.size());
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return text;
        if (text.size() < most_output) text.append(piece.data(), static_cast<std::size_t>(size));
    }
}

Result<Answer> ask(std::string const& agent_path, std::span<PatternToCheck const> patterns) {
    std::vector<char const*> words{agent_path.c_str(), "check-pattern", "--"};
    for (PatternToCheck const& one : patterns)
        words.push_back(one.pattern.c_str());
    words.push_back(nullptr);
    auto pipe = TRY(make_pipe());
    pid_t const child = ::fork();
    int const error = errno;
    if (child < 0) return fail(error, "ask " + agent_path);
    if (child == 0) become(agent_path.c_str(), const_cast<char**>(words.data()), pipe.writer.get());
    pipe.writer = {};
    Answer answer{0, read_all(pipe.reader.get())};
    while (::waitpid(child, &answer.status, 0) < 0 && errno == EINTR) {
    }
    return answer;
}

/// Reads the agent's answer: "3:missing ): (" for each faulty pattern, and "checked 7" at the end. Returns whether the
/// answer has this form.
bool take_faults(std::string_view text, std::span<PatternToCheck const> patterns, std::vector<std::string>& faults) {
    while (!text.empty()) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        std::string_view const line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (text.empty()) return line == "checked " + std::to_string(patterns.size());
        std::size_t which = 0;
        auto const [next, error] = std::from_chars(line.data(), line.data() + line.size(), which);
        auto const used = static_cast<std::size_t>(next - line.data());
        if (error != std::errc{} || which >= patterns.size() || !line.substr(used).starts_with(':')) return false;
        PatternToCheck const& one = patterns[which];
        faults.push_back(one.place + ": " + json::quoted(one.pattern, shown_bytes) +
                         " is not a regular expression: " + std::string(line.substr(used + 1)));
    }
    return false;
}

}  // namespace

Result<std::vector<std::string>> faults_of_patterns(std::string const& agent_path,
                                                    std::vector<PatternToCheck> const& patterns) {
    std::vector<std::string> faults;
    for (std::size_t at = 0; at < patterns.size(); at += most_at_once) {
        auto const some = std::span(patterns).subspan(at, std::min(most_at_once, patterns.size() - at));
        Answer const answer = TRY(ask(agent_path, some));
        bool const has_exited = WIFEXITED(answer.status);
        if (has_exited && WEXITSTATUS(answer.status) == not_executed && answer.text.size() == sizeof(int)) {
            int error = 0;
            answer.text.copy(reinterpret_cast<char*>(&error), sizeof error);
            return fail(error, "execute " + agent_path);
        }
        bool const has_answered = has_exited && WEXITSTATUS(answer.status) <= 1;
        if (!has_answered || !take_faults(answer.text, some, faults))
            return fail(ErrorKind::unavailable, "ask " + agent_path,
                        has_exited ? "it does not know check-pattern" : "it did not answer");
    }
    return faults;
}

}  // namespace triton::launcher
