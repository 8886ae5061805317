#include <map>
#include <unordered_map>

#include "config/program_parser.h"

// What can be wrong between programs.

namespace triton::config {

namespace {

/// A program waits for another one, because one of the two says so.
struct Edge {
    std::size_t to;
    std::string_view key;
    std::size_t said_by;
};
using Graph = std::vector<std::vector<Edge>>;  // by program, in the document's order

class Relations {
public:
    Relations(std::vector<Box<Program>> const& programs, json::Where const& at, Reading& reading)
        : programs_(programs), at_(at), reading_(reading), graph_(programs.size()) {
        for (std::size_t i = 0; i < programs.size(); ++i) {
            by_name_.emplace(programs[i]->name, i);
            names_.push_back(programs[i]->name);
        }
    }

    void check() {
        for (std::size_t i = 0; i < programs_.size(); ++i) {
            add_edges(i, "after", programs_[i]->after);
            add_edges(i, "requires", programs_[i]->requires_);
            add_edges(i, "bindsTo", programs_[i]->binds_to);
        }
        for (std::size_t i = 0; i < programs_.size(); ++i)
            add_edges(i, "before", programs_[i]->before);
        for (std::size_t i = 0; i < programs_.size(); ++i)
            if (programs_[i]->output.kind == OutputKind::program) add_reader(i);
        find_cycles();
    }

private:
    /// Adds the programs that one names, except those that cannot be meant.
    void add_edges(std::size_t by, std::string_view key, std::vector<std::string> const& names) {
        bool const is_before = key == "before";
        json::Where const program_at{&at_, std::string_view(programs_[by]->name)};
        json::Where const list_at{&program_at, key};
        for (std::size_t i = 0; i < names.size(); ++i) {
            json::Where const name_at{&list_at, i};
            auto const found = by_name_.find(names[i]);
            if (found == by_name_.end()) {
                std::string const meant = reading_.problems.has_room() ? json::suggestion(names[i], names_) : "";
                reading_.problems.add(name_at, "unknown program " + json::quoted(names[i]) + meant);
            } else if (found->second == by) {
                reading_.problems.add(name_at, "names the program itself");
            } else if (!is_before && programs_[found->second]->schedule) {
                reading_.problems.add(name_at, json::quoted(names[i]) + " runs on a schedule: it cannot be waited for");
            } else if (is_before) {
                add_edge(found->second, {by, key, by});
            } else {
                add_edge(by, {found->second, key, by});
            }
        }
        if (is_before && !names.empty() && programs_[by]->schedule)
            reading_.problems.add(json::Where{&program_at, key}, "a program on a schedule cannot be waited for");
    }

    /// Adds the program that reads the output of this one.
    void add_reader(std::size_t by) {
        std::string const& name = programs_[by]->output.to;
        json::Where const program_at{&at_, std::string_view(programs_[by]->name)};
        json::Where const output_at{&program_at, "output"};
        json::Where const name_at{&output_at, "to"};
        auto const found = by_name_.find(name);
        if (found == by_name_.end()) {
            std::string const meant = reading_.problems.has_room() ? json::suggestion(name, names_) : "";
            return reading_.problems.add(name_at, "unknown program " + json::quoted(name) + meant);
        }
        Program const& reader = programs_[found->second];
        if (found->second == by) return reading_.problems.add(name_at, "names the program itself");
        if (reader.schedule || reader.one_shot)
            return reading_.problems.add(name_at, json::quoted(name) + " does not run all the time");
        if (reader.count.value_or(1) != 1)
            return reading_.problems.add(name_at,
                                         json::quoted(name) + " must be one process: several would share the lines");
        if (reader.stdin_.kind != StdinKind::null || reader.tty)
            return reading_.problems.add(name_at, json::quoted(name) + " has another standard input");
        add_edge(by, {found->second, "output", by});
    }

    void add_edge(std::size_t from, Edge const& edge) {
        if (std::ranges::find(graph_[from], edge.to, &Edge::to) == graph_[from].end()) graph_[from].push_back(edge);
    }

    /// Searches depth first, with a stack of its own, since a document may name a chain as long as the limits allow. An
    /// edge back into the path closes a cycle. Each such edge is reported once.
    void find_cycles() {
        std::vector<bool> is_left(programs_.size());
        for (std::size_t root = 0; root < programs_.size(); ++root) {
            if (!is_left[root]) visit(root, is_left);
        }
    }

    /// A step of the path: a program, and which of its edges is next.
    struct Step {
        std::size_t program;
        std::size_t next = 0;
    };

    void visit(std::size_t root, std::vector<bool>& is_left) {
        std::vector<Step> path{{root}};
        std::vector<bool> is_on_path(programs_.size());
        is_on_path[root] = true;
        while (!path.empty()) {
            Step& step = path.back();
            if (step.next == graph_[step.program].size()) {
                is_left[step.program] = true;
                is_on_path[step.program] = false;
                path.pop_back();
                continue;
            }
            std::size_t const to = graph_[step.program][step.next++].to;
            if (is_on_path[to]) {
                report_cycle(path, to);
            } else if (!is_left[to]) {
                is_on_path[to] = true;
                path.push_back({to});
            }
        }
    }

    /// Reports "programs.a.requires: cycle a -> b -> a", at the program of the cycle that comes first in the document.
    void report_cycle(std::vector<Step> const& path, std::size_t begin) {
        if (!reading_.problems.has_room()) return reading_.problems.add(std::string(), {});  // only counted: texts cost
        auto const start = std::ranges::find(path, begin, &Step::program);
        std::vector<Step> cycle(start, path.end());
        std::ranges::rotate(cycle, std::ranges::min_element(cycle, {}, &Step::program));
        Edge const& first = graph_[cycle.front().program][cycle.front().next - 1];
        std::string text = "cycle ";
        for (Step const& step : cycle)
            text.append(programs_[step.program]->name).append(" -> ");
        text += programs_[cycle.front().program]->name;
        json::Where const program_at{&at_, std::string_view(programs_[first.said_by]->name)};
        reading_.problems.add(json::Where{&program_at, first.key}, std::move(text));
    }

    std::vector<Box<Program>> const& programs_;
    json::Where const& at_;
    Reading& reading_;
    Graph graph_;
    std::unordered_map<std::string_view, std::size_t> by_name_;
    std::vector<std::string_view> names_;
};

bool names_another(Program const& program) {
    return !program.after.empty() || !program.requires_.empty() || !program.binds_to.empty() ||
           !program.before.empty() || program.output.kind == OutputKind::program;
}

bool are_made_alike(ListenSocket const& a, ListenSocket const& b) {
    return a.mode == b.mode && a.user == b.user && a.group == b.group && a.backlog == b.backlog;
}

/// Checks that all who name an address, which is one socket, want it in the same way, and each program only once.
void check_addresses(std::vector<Box<Program>> const& programs, json::Where const& at, Reading& reading) {
    struct Owner {
        std::size_t program;
        std::size_t index;
    };
    std::map<std::string, Owner> owners;
    for (std::size_t i = 0; i < programs.size(); ++i) {
        auto const& sockets = programs[i]->sockets;
        for (std::size_t j = 0; j < sockets.size(); ++j) {
            if (sockets[j].address == SocketAddress{}) continue;  // it could not be read
            auto const [owner, is_new] = owners.try_emplace(format_socket_address(sockets[j].address), i, j);
            auto const& [program, index] = owner->second;
            bool const is_shared = program != i && are_made_alike(programs[program]->sockets[index], sockets[j]);
            if (is_new || is_shared) continue;
            json::Where const program_at{&at, std::string_view(programs[i]->name)};
            json::Where const list_at{&program_at, "sockets"};
            json::Where const other_program_at{&at, std::string_view(programs[program]->name)};
            json::Where const other_list_at{&other_program_at, "sockets"};
            reading.problems.add(json::Where{&list_at, j}, owner->first + " is also the address of " +
                                                               json::Where{&other_list_at, index}.text() +
                                                               (program == i ? "" : ", with other attributes"));
        }
    }
}

}  // namespace

/// Only one program may have the launcher's standard input.
void check_inputs(std::vector<Box<Program>> const& programs, json::Where const& at, Reading& reading) {
    Program const* first = nullptr;
    for (Program const& program : programs) {
        if (program.stdin_.kind != StdinKind::inherit) continue;
        json::Where const program_at{&at, std::string_view(program.name)};
        if (first)
            reading.problems.add(json::Where{&program_at, "stdin"},
                                 json::quoted(first->name) + " has the launcher's own already");
        else
            first = &program;
    }
}

void check_programs(std::vector<Box<Program>> const& programs, json::Where const& at, Reading& reading) {
    if (std::ranges::any_of(programs, names_another)) Relations(programs, at, reading).check();
    check_addresses(programs, at, reading);
    check_inputs(programs, at, reading);
}

}  // namespace triton::config
