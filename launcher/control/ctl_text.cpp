#include "launcher/control/ctl_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "launcher/control/control_backend.h"
#include "lib/base/rfc3339.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/varlink/codec.h"

namespace triton::launcher {

using json::Array;
using json::Node;
using json::Object;
using json::printable;

namespace {

/// The number, with one digit behind the point when it is below 100.
std::string short_number(double value) {
    if (value >= 99.95) return std::to_string(std::llround(value));
    long long const tenths = std::llround(value * 10);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string state_text(json::Object const& process) {
    std::string text = printable(text_of(process, "state"));
    if (auto const left = real_of(process, "restart_in_seconds")) text += " " + short_duration(*left);
    return text;
}

Table::Color color_of(json::Object const& process) {
    std::string const state = text_of(process, "state");
    if (state == "up" || state == "done") return Table::Color::good;
    if (state == "failed" || state == "backoff" || state == "killing") return Table::Color::bad;
    return state == "down" || state == "held" ? Table::Color::none : Table::Color::busy;
}

template <class T>
std::string or_dash(std::optional<T> const& value) {
    return value ? std::to_string(*value) : "-";
}

std::string memory_text(json::Object const& process) {
    auto const bytes = number_of(process, "memory_bytes");
    return bytes ? short_bytes(*bytes) : "-";
}

std::string uptime_text(json::Object const& process) {
    auto const uptime = real_of(process, "uptime_seconds");
    return uptime ? short_duration(*uptime) : "-";
}

/// "7.1", or "7.1 -> 7.3" where a restart will bring another.
std::string version_text(json::Object const& program, json::Object const& process) {
    std::string const configured = text_of(program, "version");
    std::string const running = text_of(process, "version");
    if (running.empty()) return configured.empty() ? "-" : printable(configured);
    if (configured.empty() || configured == running) return printable(running);
    return printable(running + " -> " + configured);
}

/// What is wrong with the configuration; empty: nothing.
std::string configuration_text(json::Object const& launcher) {
    json::Array const& reasons = list_of(launcher, "rejection");
    bool const has_none = member(launcher, "has_configuration") && !flag_of(launcher, "has_configuration");
    std::string text = has_none ? "none is active" : "";
    if (reasons.empty()) return text;
    text += text.empty() ? "the latest was rejected" : "; the latest was rejected";
    if (auto const* const first = reasons.front().get<std::string>()) text += ": " + *first;
    if (reasons.size() > 1) text += " (and " + std::to_string(reasons.size() - 1) + " more)";
    return text;
}

std::string exit_text(json::Object const& exit) {
    if (std::string const error = text_of(exit, "error"); !error.empty()) return printable(error);
    std::string text = printable(text_of(exit, "signal"));
    if (text.empty()) text = "code " + std::to_string(number_of(exit, "code").value_or(0));
    if (flag_of(exit, "oom_killed")) text += " (out of memory)";
    return text;
}

/// Why the launcher has stopped a process, in words.
std::string reason_text(json::Object const& end) {
    std::string const reason = text_of(end, "reason");
    if (reason == "stopped") return "was stopped";
    if (reason == "start_timeout") return "was not ready in time";
    if (reason == "watchdog") return "missed its watchdog";
    if (reason == "unhealthy") return "a check failed";
    if (reason == "run_timeout") return "took too long";
    return reason.empty() ? "-" : printable(reason);
}

template <class Call>
void for_each_process(std::vector<json::Object> const& programs, Call const& call) {
    for (json::Object const& program : programs) {
        for (Node const& node : list_of(program, "processes"))
            if (auto const* const process = node.get<json::Object>()) call(program, *process);
    }
}

template <class Call>
void for_each_object(json::Array const& list, Call const& call) {
    for (Node const& node : list)
        if (auto const* const object = node.get<json::Object>()) call(*object);
}

std::string words(json::Array const& list, std::string_view separator) {
    std::string text;
    for (Node const& node : list) {
        if (!text.empty()) text += separator;
        if (auto const* const word = node.get<std::string>()) text += json::shown(*word);
    }
    return text;
}

}  // namespace

std::string json_text(json::Object const& object) { return json::Writer{}.value(object).text(); }

std::string short_duration(double seconds) {
    if (!(seconds > 0)) seconds = 0;
    if (seconds < 9.95) return short_number(seconds) + "s";
    struct Unit {
        long long seconds;
        char letter;
    };
    static constexpr std::array<Unit, 4> units{{{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}}};
    long long left = std::llround(std::min(seconds, 1e15));
    std::size_t first = 0;
    while (left < units[first].seconds && first + 1 < units.size())
        ++first;
    std::string text;
    for (std::size_t i = first; i < std::min(first + 2, units.size()); ++i) {
        text += std::to_string(left / units[i].seconds) + units[i].letter;
        left %= units[i].seconds;
    }
    return text;
}

std::string short_bytes(std::int64_t bytes) {
    static constexpr std::string_view units = "KMGTPE";
    if (bytes < 1024) return std::to_string(bytes);
    auto value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < units.size(); ++unit)
        value /= 1024;
    return short_number(value) + units[unit];
}

std::string last_exit_text(json::Object const& process) {
    json::Object const& last = object_of(process, "last_exit");
    if (last.empty()) return "-";
    std::string text = exit_text(last);
    if (auto const ago = real_of(process, "ended_seconds_ago")) text += ", " + short_duration(*ago) + " ago";
    return text;
}

std::string shown_program(std::string_view name) { return printable(shown_name(name)); }

void Table::add(std::vector<std::string> cells, Color color_of_state, std::size_t state_column) {
    rows_.push_back({std::move(cells), color_of_state, state_column});
}

std::vector<std::string> Table::lines(std::string_view alignment, bool is_colored) const {
    static constexpr std::array<std::string_view, 4> colors{"", "\033[32m", "\033[33m", "\033[31m"};
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < heads_.size(); ++column) {
        std::size_t width = heads_[column].size();
        for (Row const& row : rows_)
            width = std::max(width, row.cells[column].size());
        widths.push_back(width);
    }
    std::vector<std::string> lines;
    auto const cell = [&](std::string& line, std::size_t column, std::string_view text, std::string_view color) {
        std::string const blanks(widths[column] - text.size(), ' ');
        if (alignment[column] == 'r') line += blanks;
        line.append(color).append(text).append(color.empty() ? "" : "\033[0m");
        if (column + 1 == heads_.size()) return;
        if (alignment[column] != 'r') line += blanks;
        line += "  ";
    };
    std::string head;
    for (std::size_t column = 0; column < heads_.size(); ++column)
        cell(head, column, heads_[column], "");
    lines.push_back(is_colored ? "\033[1m" + head + "\033[0m\n" : head + "\n");
    for (Row const& row : rows_) {
        std::string line;
        for (std::size_t column = 0; column < heads_.size(); ++column) {
            bool const has_color = is_colored && column == row.state_column;
            cell(line, column, row.cells[column], has_color ? colors[static_cast<std::size_t>(row.color)] : "");
        }
        lines.push_back(line + "\n");
    }
    return lines;
}

void merge_programs(std::vector<json::Object>& programs, json::Object& reply) {
    auto const member_at = std::ranges::find(reply, "programs", &json::Member::key);
    auto* const list = member_at == reply.end() ? nullptr : std::get_if<json::Array>(&member_at->node.value);
    if (!list) return;
    for (Node& node : *list) {
        auto* const program = std::get_if<json::Object>(&node.value);
        if (!program) continue;
        auto const same = [program](json::Object const& other) {
            return text_of(other, "name") == text_of(*program, "name");
        };
        auto const known = std::ranges::find_if(programs, same);
        if (known == programs.end()) {
            programs.push_back(std::move(*program));
            continue;
        }
        auto const into = std::ranges::find(*known, "processes", &json::Member::key);
        auto const from = std::ranges::find(*program, "processes", &json::Member::key);
        if (into == known->end() || from == program->end()) continue;
        auto* const target = std::get_if<json::Array>(&into->node.value);
        auto* const source = std::get_if<json::Array>(&from->node.value);
        if (target && source) target->insert(target->end(), source->begin(), source->end());
    }
}

void drop_internal(std::vector<json::Object>& programs) {
    std::erase_if(programs, [](json::Object const& program) { return flag_of(program, "internal"); });
}

std::vector<std::string> status_lines(std::vector<json::Object> const& programs, bool is_colored) {
    struct Row {
        std::vector<std::string> cells;  // without the version
        std::string version;
        Table::Color color;
    };
    std::vector<Row> rows;
    for (json::Object const& program : programs) {
        std::string const name = shown_program(text_of(program, "name"));
        json::Array const& processes = list_of(program, "processes");
        if (processes.empty()) {
            rows.push_back(
                {{name, "-", "none", "-", "-", "-", "-", "-", "-"}, version_text(program, {}), Table::Color::none});
        }
        for (Node const& node : processes) {
            auto const* const process = node.get<json::Object>();
            if (!process) continue;
            rows.push_back(
                {{name, or_dash(number_of(*process, "number")), state_text(*process),
                  or_dash(number_of(*process, "pid")), uptime_text(*process), or_dash(number_of(*process, "restarts")),
                  flag_of(*process, "ready") ? "yes" : "no", memory_text(*process), last_exit_text(*process)},
                 version_text(program, *process),
                 color_of(*process)});
        }
    }
    std::vector<std::string_view> heads{"NAME",     "NUMBER", "STATE",  "PID",      "UPTIME",
                                        "RESTARTS", "READY",  "MEMORY", "LAST EXIT"};
    std::string alignment = "lrlrrrlrl";
    // Versions are shown when one is about to change: one that all have from the document would fill a column in vain.
    bool const has_versions = std::ranges::any_of(
        rows, [&rows](Row const& row) { return row.version != rows.front().version || row.version.contains(" -> "); });
    if (has_versions) {
        heads.insert(heads.begin() + 2, "VERSION");
        alignment.insert(2, "l");
    }
    Table table(std::move(heads));
    for (Row& row : rows) {
        if (has_versions) row.cells.insert(row.cells.begin() + 2, std::move(row.version));
        table.add(std::move(row.cells), row.color, has_versions ? 3 : 2);
    }
    return table.lines(alignment, is_colored);
}

std::vector<std::string> launcher_lines(json::Object const& launcher, double now) {
    std::vector<std::string> lines;
    if (std::string const text = configuration_text(launcher); !text.empty())
        lines.push_back("configuration: " + printable(text) + "\n");
    if (flag_of(launcher, "isolated")) lines.emplace_back("isolated: the pod's annotation holds the processes back\n");
    json::Object const& reporter = object_of(launcher, "reporter");
    std::string text = text_of(reporter, "state");
    if (text.empty() || text == "off") return lines;
    auto const last = real_of(reporter, "last_success");
    if (last && text != "ok") text += " since " + short_duration(now - *last);
    if (std::string const detail = text_of(reporter, "detail"); !detail.empty()) text += ": " + detail;
    lines.push_back("kubernetes: " + printable(text) + "\n");
    return lines;
}

std::string cut_line(std::string_view line, std::size_t width) {
    std::string out;
    std::size_t shown = 0;
    for (std::size_t at = 0; at < line.size();) {
        std::size_t size = 1;
        bool const is_color = line.substr(at).starts_with("\033[");
        if (is_color) {
            size = std::min(line.find('m', at), line.size() - 1) + 1 - at;
        } else {
            while (at + size < line.size() && (static_cast<unsigned char>(line[at + size]) & 0xc0) == 0x80)
                ++size;  // the rest of a character of UTF-8
        }
        bool const takes_room = !is_color && line[at] != '\n';
        if (!takes_room || shown < width) out += line.substr(at, size);
        shown += takes_room ? 1 : 0;
        at += size;
    }
    return out;
}

std::vector<std::string> top_lines(std::vector<json::Object> const& programs, CpuTimes& before, double elapsed,
                                   bool is_colored) {
    struct Row {
        double share;
        std::size_t order;
        std::vector<std::string> cells;
        Table::Color color;
    };
    std::vector<Row> rows;
    CpuTimes now;
    for (json::Object const& program : programs) {
        std::string const name = text_of(program, "name");
        for (Node const& node : list_of(program, "processes")) {
            auto const* const process = node.get<json::Object>();
            if (!process) continue;
            auto const pid = number_of(*process, "pid");
            auto const cpu = real_of(*process, "cpu_seconds");
            std::optional<double> share;
            if (pid && cpu) {
                now[{name, *pid}] = *cpu;
                auto const then = before.find({name, *pid});
                if (elapsed > 0 && then != before.end()) share = std::max(0.0, 100 * (*cpu - then->second) / elapsed);
            }
            rows.push_back({share.value_or(-1),
                            rows.size(),
                            {shown_program(name), or_dash(number_of(*process, "number")), state_text(*process),
                             or_dash(pid), share ? short_number(*share) : "-", cpu ? short_duration(*cpu) : "-",
                             memory_text(*process), uptime_text(*process), or_dash(number_of(*process, "restarts"))},
                            color_of(*process)});
        }
    }
    before = std::move(now);
    std::ranges::sort(
        rows, [](Row const& a, Row const& b) { return std::tie(b.share, a.order) < std::tie(a.share, b.order); });
    Table table({"NAME", "NUMBER", "STATE", "PID", "CPU %", "CPU TIME", "MEMORY", "UPTIME", "RESTARTS"});
    for (Row& row : rows)
        table.add(std::move(row.cells), row.color, 2);
    return table.lines("lrlrrrrrr", is_colored);
}

std::vector<std::string> check_lines(std::vector<json::Object> const& programs, double now) {
    std::vector<std::string> lines;
    for_each_process(programs, [&](json::Object const& program, json::Object const& process) {
        std::string const who =
            shown_program(text_of(program, "name")) + ":" + or_dash(number_of(process, "number")) + " ";
        for_each_object(list_of(process, "checks"), [&](json::Object const& check) {
            if (lines.empty()) lines.emplace_back("\n");
            double const ago = now - real_of(check, "time").value_or(now);
            std::string const how = flag_of(check, "ok") ? "good" : "failed: " + printable(text_of(check, "why"));
            lines.push_back(who + printable(text_of(check, "check")) + ", " + short_duration(ago) + " ago, " + how +
                            "\n");
            std::string const output = text_of(check, "output");
            for (std::string_view rest = output; !rest.empty();) {
                std::string_view const line = rest.substr(0, rest.find('\n'));
                rest.remove_prefix(std::min(rest.size(), line.size() + 1));
                lines.push_back("    " + printable(line) + "\n");
            }
        });
    });
    return lines;
}

std::vector<std::string> history_lines(std::vector<json::Object> const& programs, bool is_colored) {
    Table table({"NAME", "NUMBER", "ENDED", "AFTER", "LAST EXIT", "REASON"});
    for_each_process(programs, [&](json::Object const& program, json::Object const& process) {
        for_each_object(list_of(process, "ends"), [&](json::Object const& end) {
            bool const is_good = number_of(end, "code") == 0 || text_of(end, "reason") == "stopped";
            table.add({shown_program(text_of(program, "name")), or_dash(number_of(process, "number")),
                       rfc3339(static_cast<std::int64_t>(std::clamp(real_of(end, "time").value_or(0), 0.0, 1e12))),
                       short_duration(real_of(end, "run_seconds").value_or(0)), exit_text(end), reason_text(end)},
                      is_good ? Table::Color::none : Table::Color::bad, 4);
        });
    });
    return table.lines("lrlrll", is_colored);
}

std::string description_text(json::Object const& description, json::Object const& program) {
    std::string out;
    auto const line = [&out](std::string_view name, std::string const& value) {
        if (value.empty()) return;
        std::string head = std::string(name) + ":";
        head.resize(std::max<std::size_t>(head.size() + 1, 20), ' ');
        out += head + printable(value) + "\n";
    };
    line("name", shown_program(text_of(program, "name")));
    line("kind", text_of(program, "kind"));
    line("processes", std::to_string(number_of(program, "wanted").value_or(0)));
    line("ready", flag_of(program, "ready") ? "yes" : "no");
    if (auto const next = real_of(program, "next_run_in_seconds")) line("next run in", short_duration(*next));
    line("version", text_of(description, "version"));
    line("command", words(list_of(description, "command"), " "));
    line("working directory", text_of(description, "working_directory"));
    line("user", text_of(description, "user"));
    line("restart", text_of(description, "restart"));
    line("after", words(list_of(description, "after"), ", "));
    line("requires", words(list_of(description, "requires"), ", "));
    line("binds to", words(list_of(description, "binds_to"), ", "));
    line("sockets", words(list_of(description, "sockets"), ", "));
    line("output", text_of(description, "output"));
    for (Node const& node : list_of(program, "processes")) {
        auto const* const process = node.get<json::Object>();
        if (process) line("status of " + or_dash(number_of(*process, "number")), text_of(*process, "status"));
    }
    return out;
}

std::string event_text(json::Object const& event) {
    std::string level = text_of(event, "level");
    level.resize(std::max<std::size_t>(level.size(), 7), ' ');
    return printable(text_of(event, "time") + " " + level + " " + text_of(event, "message")) + "\n";
}

}  // namespace triton::launcher
