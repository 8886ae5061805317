// What containers have written.

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "lib/base/write_all.h"
#include "lib/text/printable.h"
#include "programs/criadm/command_line.h"
#include "programs/criadm/log_reader.h"
#include "programs/criadm/node_client.h"

namespace triton::program {

namespace {

constexpr milliseconds question_pause{1000};  // between two questions whether a container that is followed still runs

/// Prints lines of a log as the container has written them, its errors to our errors. For a terminal, what could take
/// it over is escaped.
class LogPrinter {
public:
    explicit LogPrinter(Options const& options)
        : with_times_(options.with_times),
          is_escaped_{!options.is_raw && ::isatty(STDOUT_FILENO) == 1,
                      !options.is_raw && ::isatty(STDERR_FILENO) == 1} {}

    /// Returns whether there is still a reader.
    Result<bool> print_lines(std::string_view lines) {
        std::string out;
        while (!lines.empty()) {
            std::string_view const line = lines.substr(0, lines.find('\n'));
            lines.remove_prefix(std::min(lines.size(), line.size() + 1));
            auto const parsed = parse_log_line(line);
            if (!parsed) continue;  // the rest of a line that a full disk has cut
            if (!parsed->is_error) {
                add(*parsed, out);
                continue;
            }
            if (!TRY(flush(out))) return false;
            std::string error;
            add(*parsed, error);
            (void)write_all(STDERR_FILENO, error);  // a missing reader of errors is not missed
        }
        return flush(out);
    }

private:
    void add(LogLine const& line, std::string& out) {
        bool& is_within = is_within_[line.is_error ? 1 : 0];
        if (with_times_ && !is_within) out.append(line.time).append(" ");
        is_within = line.is_piece;
        out.append(is_escaped_[line.is_error ? 1 : 0] ? text::printable(line.text) : std::string(line.text));
        if (!line.is_piece) out += '\n';
    }

    static Result<bool> flush(std::string& out) {
        auto const printed = print(out);
        out.clear();
        return printed;
    }

    bool with_times_;
    std::array<bool, 2> is_escaped_;
    std::array<bool, 2> is_within_{};  // a line of which a piece was printed
};

/// Whether the container may still write: it has not ended, or nobody can be asked.
bool can_write(Options const& options, std::string const& id) {
    auto const report = read_report(options);
    if (!report) return true;
    auto const found = std::ranges::find(report->containers(), id, &node::Subject::id);
    return found != report->containers().end() && found->state() != "exited" && found->state() != "removing";
}

/// Prints what is there. Returns whether there is still a reader.
Result<bool> print_what_is_there(LogReader& reader, LogPrinter& printer) {
    for (;;) {
        std::string lines;
        bool const has_some = TRY(reader.read(lines));
        if (!TRY(printer.print_lines(lines))) return false;
        if (has_some) continue;
        if (!reader.follow_rotation()) return true;
    }
}

Outcome follow_log(Options const& options, node::Subject const& container, LogReader& reader, LogPrinter& printer) {
    UniqueFd const changes{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    std::string const directory = container.log_path().substr(0, container.log_path().rfind('/'));
    // Without it, as on a file system that has none, a look each second is enough.
    if (changes) ::inotify_add_watch(changes.get(), directory.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO);
    TimePoint next_question = steady_now() + question_pause;
    for (bool is_last = false;;) {
        if (!TRY(print_what_is_there(reader, printer)) || is_last) return {};
        std::array<pollfd, 2> waiting{{{changes.get(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}}};
        (void)::poll(waiting.data(), waiting.size(), static_cast<int>(question_pause.count()));
        if (waiting[1].revents != 0) return {};
        std::array<char, 4096> events{};
        while (changes && ::read(changes.get(), events.data(), events.size()) > 0) {
        }
        if (steady_now() < next_question) continue;
        next_question = steady_now() + question_pause;
        is_last = !can_write(options, container.id());  // what it has written before that is still printed
    }
}

Outcome run_logs(Options const& options) {
    TRY(expect_words(options, "logs", 1, 1));
    auto const report = TRY(read_report(options));
    auto subject = TRY(find_object(report, options.words.front()));
    if (subject.pod().empty()) {
        auto const& all = report.containers();
        if (std::ranges::count(all, subject.id(), &node::Subject::pod) != 1)
            return fail("a pod with one container, or one of its containers as NAMESPACE/POD/CONTAINER, is needed");
        subject = *std::ranges::find(all, subject.id(), &node::Subject::pod);
    }
    if (subject.log_path().empty())
        return fail(ErrorKind::not_found, "container " + subject.id() + " was made without a log");
    auto reader = TRY(LogReader::open(subject.log_path(), options.tail));
    LogPrinter printer(options);
    if (options.follows) return follow_log(options, subject, reader, printer);
    TRY(print_what_is_there(reader, printer));
    return {};
}

void add_logs_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-f,--follow", options.follows, "Goes on until the container has ended.");
    app.add_flag("-t,--timestamps", options.with_times, "The time before each line.");
    app.add_flag("-r,--raw", options.is_raw, "Escapes nothing on a terminal.");
    app.add_option("-n,--tail", options.tail, "Only so many lines of what is there.")
        ->check(CLI::Range(0, 1'000'000'000));
}

}  // namespace

std::span<Command const> logs_commands() {
    static constexpr auto rows =
        std::to_array<Command>({{"logs", "[-f] [-t] [-r] [-n LINES] OBJECT", "prints what a container has written",
                                 "criadm logs -n 20 -f default/web/nginx", add_logs_options, run_logs}});
    return rows;
}

}  // namespace triton::program
