#include <array>
#include <chrono>
#include <thread>

#include <sys/ioctl.h>
#include <unistd.h>

#include "host/info/client/documents.h"
#include "host/info/client/usage_table.h"
#include "programs/vminfo/command_line.h"

namespace triton::program {

namespace {

/// Shares of a processor need two looks; the first table waits no longer than this for the second one.
constexpr std::chrono::milliseconds longest_first_wait{1000};

/// vminfod looks at each VM that runs before it begins to answer.
constexpr info::Patience usage_patience{.start = std::chrono::seconds(30), .whole = std::chrono::seconds(60)};

/// Writes a table over the previous one. Source: ECMA-48: CUP, EL, ED.
std::string on_terminal(std::string const& table) {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) size = {24, 80, 0, 0};
    std::string text = "\x1b[H";
    for (char const c : info::cut_to(table, size.ws_row - 1U, size.ws_col))
        text += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
    return text + "\x1b[J";
}

Outcome run_top(Options const& options) {
    info::UsageTable table(TRY(info::UsageTable::parse_order(options.sort)));
    info::Client const client = client_of(options);
    bool const has_terminal = ::isatty(STDOUT_FILENO) == 1;
    std::chrono::milliseconds const delay(static_cast<std::int64_t>(options.delay * 1000));
    for (int shown = -1; options.count == 0 || shown < options.count; ++shown) {
        std::string const answer = TRY(client.get("/usage", info::most_answer_bytes, usage_patience));
        table.look(TRY(info::read_machines(answer)), std::chrono::steady_clock::now());
        bool const is_first = shown < 0;
        if (!is_first && !TRY(print(has_terminal ? on_terminal(table.text()) : table.text()))) return {};
        if (shown + 1 == options.count && options.count > 0) break;
        std::this_thread::sleep_for(is_first ? std::min(delay, longest_first_wait) : delay);
    }
    return {};
}

void add_top(CLI::App& app, Options& options) {
    app.add_option("-s", options.sort, "Sorts by cpu, memory, tasks or alias.");
    app.add_option("-d", options.delay, "Seconds between two tables (2).")->check(CLI::Range(1.0, 3600.0));
    app.add_option("-n", options.count, "Ends after this many tables.")->check(CLI::Range(1, 1'000'000'000));
}

}  // namespace

std::span<Command const> top_commands() {
    static constexpr auto rows = std::to_array<Command>(
        {{"top", "[-s WHAT] [-d SECONDS] [-n COUNT]", "prints what VMs use, and refreshes it", "", add_top, run_top}});
    return rows;
}

}  // namespace triton::program
