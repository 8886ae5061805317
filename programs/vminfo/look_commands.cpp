#include <algorithm>
#include <array>

#include "host/info/client/documents.h"
#include "host/info/client/find_machine.h"
#include "host/info/client/http_answer.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/vminfo/command_line.h"

namespace triton::program {

namespace {

using info::Target;

constexpr std::size_t most_status_bytes = 64 << 20;
constexpr info::Patience fresh_patience{.start = std::chrono::seconds(30), .whole = std::chrono::seconds(60)};

Outcome run_ping(Options const& options) {
    std::string const answer = TRY(client_of(options).get("/ping", 1 << 10));
    if (!answer.starts_with(R"({"ping":"pong"})")) return fail(ErrorKind::corrupt, "vminfod does not answer pong");
    TRY(print("pong\n"));
    return {};
}

bool is_branch(json::Node const& node) {
    auto const* const object = node.get<json::Object>();
    auto const* const array = node.get<json::Array>();
    return (object && !object->empty()) || (array && !array->empty());
}

std::string leaf_text(json::Node const& node) {
    if (auto const* const text = node.get<std::string>()) return *text;
    json::Writer out;
    out.value(node);
    return std::move(out).text();
}

/// Adds one line for each value, below the name of what it belongs to. The names may come from clients, so they are
/// in printable form.
void add_lines(json::Node const& node, std::size_t depth, std::string& out) {
    auto const add = [&out, depth](std::string const& name, json::Node const& below) {
        bool const is_deep = is_branch(below);
        out += std::string(depth * 2, ' ') + text::printable(name) +
               (is_deep ? "" : " " + text::printable(leaf_text(below))) + "\n";
        if (is_deep) add_lines(below, depth + 1, out);
    };
    if (auto const* const object = node.get<json::Object>()) {
        for (json::Member const& member : *object)
            add(member.key + ":", member.node);
    } else if (auto const* const array = node.get<json::Array>()) {
        for (json::Node const& element : *array)
            add("-", element);
    }
}

Outcome run_status(Options const& options) {
    Target target("/status");
    if (options.is_full) target.add("full");
    std::string const answer = TRY(client_of(options).get(target.text(), most_status_bytes));
    json::Node const status = TRY(info::read_answer(answer));
    std::string text;
    if (options.as_json)
        text = text::printable_json(machine::pretty(status));
    else
        add_lines(status, 0, text);
    TRY(print(text));
    return {};
}

/// Machines with some of their properties only, which need not have the uuid among them.
Result<json::Array> read_parts(std::string_view text) {
    json::Node answer = TRY(info::read_answer(text));
    auto* const machines = std::get_if<json::Array>(&answer.value);
    auto const is_object = [](json::Node const& node) { return node.get<json::Object>() != nullptr; };
    if (!machines || !std::ranges::all_of(*machines, is_object))
        return fail(ErrorKind::corrupt, "read the answer of vminfod", "it is not a list of machines");
    return std::move(*machines);
}

Outcome run_vms(Options const& options) {
    (void)TRY(filters_of(options.words, "filter"));  // our messages are better than the daemon's
    Target target("/vms");
    for (std::string const& word : options.words) {
        std::size_t const equals = word.find('=');
        target.add(word.substr(0, equals), word.substr(equals + 1));
    }
    if (!options.fields.empty()) {
        (void)TRY(machine::parse_columns(options.fields));
        target.add("fields", options.fields);
    }
    std::string const answer = TRY(client_of(options).get(target.text(), info::most_answer_bytes));
    json::Array machines = TRY(options.fields.empty() ? info::read_machines(answer) : read_parts(answer));
    TRY(print(text::printable_json(machine::pretty(json::Node{std::move(machines)}))));
    return {};
}

Outcome run_vm(Options const& options) {
    TRY(expect_words(options, "vm", 1, 1));
    info::Client const client = client_of(options);
    Uuid const uuid = TRY(info::find_machine(client, options.words.front()));
    Target target("/vms/" + uuid.text());
    if (options.is_fresh) target.add("fresh", "true");
    auto const answer =
        client.get(target.text(), info::most_answer_bytes, options.is_fresh ? fresh_patience : info::Patience{});
    if (!answer && answer.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::not_found, "VM " + uuid.text() + " not found");
    if (!answer) return std::unexpected(answer.error());
    json::Node const machine = TRY(info::read_machine(*answer));
    TRY(print(text::printable_json(machine::pretty(machine))));
    return {};
}

void add_status(CLI::App& app, Options& options) {
    app.add_flag("-j", options.as_json, "Prints JSON.");
    app.add_flag("-f", options.is_full, "Adds the log of full refreshes, and the figures of the HTTP servers.");
}
void add_vms(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("-o", options.fields, "Only these properties.");
}
void add_vm(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("--fresh", options.is_fresh, "Makes vminfod look again first.");
}

}  // namespace

std::span<Command const> look_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"ping", "", "prints pong when vminfod answers", "", add_nothing, run_ping},
        {"status", "[-j] [-f]", "prints what vminfod does, and for whom", "", add_status, run_status},
        {"vm", "[--fresh] VM", "prints all properties of a VM as JSON", "", add_vm, run_vm},
        {"vms", "[-o F,F] [F=V]...", "prints all VMs as JSON", "", add_vms, run_vms},
    });
    return rows;
}

}  // namespace triton::program
