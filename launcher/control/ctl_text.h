#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/json/lookup.h"

namespace triton::launcher {

/// What `ctl` shows, from what the launcher answers. Pure.

/// A JSON object as text again, in one line. Numbers keep their digits.
std::string json_text(json::Object const& object);

/// "0.5s", "12s", "3m20s", "5h7m", "12d3h": two units are enough for a person.
std::string short_duration(double seconds);
/// "512", "1.5K", "12.3M": powers of 1024.
std::string short_bytes(std::int64_t bytes);
/// The name of a program as it is typed: "-" for the unnamed one.
std::string shown_program(std::string_view name);
/// How a process has ended last: "code 1", "SIGKILL (out of memory)", "cannot execute /bin/web: ..."; "-": it has not.
std::string last_exit_text(json::Object const& process);

/// Columns as wide as their widest cell. Cells are colored when asked for.
class Table {
public:
    enum class Color : std::uint8_t { none, good, busy, bad };

    explicit Table(std::vector<std::string_view> heads) : heads_(std::move(heads)) {}
    void add(std::vector<std::string> cells, Color color_of_state = Color::none, std::size_t state_column = 0);
    /// Lines with their newlines; numbers to the right (`right`: one letter a column, 'r' or 'l').
    [[nodiscard]] std::vector<std::string> lines(std::string_view alignment, bool is_colored) const;

private:
    struct Row {
        std::vector<std::string> cells;
        Color color;
        std::size_t state_column;
    };
    std::vector<std::string_view> heads_;
    std::vector<Row> rows_;
};

/// Programs of several answers, where one may come in parts, as one list.
void merge_programs(std::vector<json::Object>& programs, json::Object& reply);

/// Without the launcher's own.
void drop_internal(std::vector<json::Object>& programs);

/// The version of a running program, and the one that it has from its next start on, are shown if they are not
/// the same for all.
std::vector<std::string> status_lines(std::vector<json::Object> const& programs, bool is_colored);

/// Errors of the configuration, what keeps processes back, and whether reports reach the cluster; nothing
/// if there is nothing to show. `now`: seconds since 1970.
std::vector<std::string> launcher_lines(json::Object const& launcher, double now);

/// The beginning of a line with its newline and its colors, as long as it fits into a terminal's width.
std::string cut_line(std::string_view line, std::size_t width);

/// Processor time of each process at one time, to be compared with the next.
using CpuTimes = std::map<std::pair<std::string, std::int64_t>, double>;  // by program and pid
/// `elapsed`: seconds since `before` was filled; 0: no share is shown. `before` becomes the current state.
std::vector<std::string> top_lines(std::vector<json::Object> const& programs, CpuTimes& before, double elapsed,
                                   bool is_colored);

/// "web" and its processes, one thing a line.
/// The latest results of each check of these programs; no line when there is none. `now`: seconds since 1970.
std::vector<std::string> check_lines(std::vector<json::Object> const& programs, double now);
/// When and why their processes ended.
std::vector<std::string> history_lines(std::vector<json::Object> const& programs, bool is_colored);

std::string description_text(json::Object const& description, json::Object const& program);

/// A record of the log as a line for people: time, level, message.
std::string event_text(json::Object const& event);

}  // namespace triton::launcher
