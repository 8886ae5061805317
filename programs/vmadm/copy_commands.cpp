#include <algorithm>
#include <array>

#include <fcntl.h>
#include <unistd.h>

#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "programs/vmadm/commands.h"
#include "programs/vmadm/context.h"

namespace triton::program {

namespace {

using machine::Machines;

/// Replaces or adds a member of an object.
void set_member(json::Object& object, json::Member member) {
    auto const found = std::ranges::find(object, member.key, &json::Member::key);
    if (found == object.end())
        object.push_back(std::move(member));
    else
        found->node = std::move(member.node);
}

/// The payload of a copy: that of a machine, with changes. Properties that only one machine can have are set as in a
/// creation, the rest as in an update, where one value of memory changes the others along with it.
machine::Checked<machine::Creation> copy_of(json::Object payload, json::Object changes) {
    static constexpr auto own = std::to_array<std::string_view>({"uuid", "zonename", "nics"});
    json::Object updates;
    for (json::Member& member : changes) {
        bool const is_own = std::ranges::find(own, member.key) != own.end();
        set_member(is_own ? payload : updates, std::move(member));
    }
    auto creation = machine::read_creation(payload, wall_microseconds());
    if (!creation) return creation;
    auto update = machine::read_update(creation->machine, updates);
    if (!update) return std::unexpected(std::move(update).error());
    creation->machine = std::move(update->machine);
    creation->ignored.insert(creation->ignored.end(), update->ignored.begin(), update->ignored.end());
    creation->notices.insert(creation->notices.end(), update->notices.begin(), update->notices.end());
    return creation;
}

Outcome run_clone(Options const& options) {
    if (options.words.empty()) return usage("Invalid or missing UUID for clone");
    json::Object changes;
    if (!options.file.empty()) {
        auto given = TRY_RUN(payload(options, ""));
        changes = std::move(given);
    }
    auto const words = TRY_RUN(key_value_words(std::span(options.words).subspan(1)));
    for (json::Member const& member : words)
        set_member(changes, member);
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    Uuid const source = TRY_RUN(machines.find(options.words.front()));
    auto const creation = copy_of(TRY_RUN(machines.payload_of_copy(source)), std::move(changes));
    if (!creation) return std::unexpected(Failure{creation.error().error("clone VM")});
    bool const is_typed = options.file.empty();
    if (is_typed && !creation->ignored.empty())
        return std::unexpected(Failure{fail(creation->ignored.front()).error()});
    TRY_RUN(tell(*host, options, creation->ignored, creation->notices));
    if (options.may_alias_repeat) machines.let_aliases_repeat();
    Uuid const uuid = creation->machine.uuid;
    json::Writer detail;
    detail.value(source.text());
    TRY_RUN(recorded(*host, uuid, "clone", detail.text(),
                     [&] { return machines.clone(source, options.snapshot, *creation); }));
    say("Successfully cloned VM " + source.text() + " to VM " + uuid.text());
    return {};
}

Outcome run_send(Options const& options) {
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    auto const uuid = TRY_RUN(one_machine(machines, options, "send"));
    if (::isatty(STDOUT_FILENO) == 1) return failed(ErrorKind::refused, "Cannot send VM to a TTY.");
    auto const sent = machines.send(uuid, STDOUT_FILENO);
    record(machines, uuid, "send", sent ? "ok" : sent.error().text(), "");
    if (!sent) return std::unexpected(Failure{sent.error()});
    say("Successfully sent VM " + uuid.text());
    return {};
}

std::expected<UniqueFd, Failure> stream_file(Options const& options) {
    if (options.file.empty() || options.file == "-") {
        if (::isatty(STDIN_FILENO) == 1) return usage("Will not receive from stdin when stdin is a tty.");
        return UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    }
    UniqueFd file(::open(options.file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file && errno == ENOENT) return failed(ErrorKind::not_found, "File: " + options.file + " does not exist.");
    if (!file) return std::unexpected(Failure{fail(errno, "open " + options.file).error()});
    return file;
}

/// Refuses a stream that would open directories of this host by itself.
Outcome check_filesystems(Options const& options, machine::Machine const& machine) {
    if (machine.filesystems.empty() || options.with_filesystems) return {};
    Error error =
        fail(ErrorKind::refused, "the VM wants directories or volumes of this host; --with-filesystems gives them")
            .error();
    for (machine::Filesystem const& filesystem : machine.filesystems)
        error.details.push_back(filesystem.source);
    return std::unexpected(Failure{std::move(error)});
}

Outcome run_receive(Options const& options) {
    if (!options.words.empty()) return usage("too many arguments for receive: " + json::quoted(options.words.front()));
    auto const file = TRY_RUN(stream_file(options));
    machine::StreamReader stream(file.get());
    machine::StreamHead const head = TRY_RUN(stream.head());
    auto payload = TRY_RUN(machine::read_payload(head.payload));
    auto const created = TRY_RUN(machine::take_create_timestamp(payload));
    auto creation = machine::read_creation(payload, wall_microseconds());
    if (!creation) return std::unexpected(Failure{creation.error().error("receive a VM")});
    if (created) creation->machine.create_timestamp = *created;
    TRY_RUN(check_filesystems(options, creation->machine));
    auto const host = TRY_RUN(Host::open(options));
    TRY_RUN(tell(*host, options, creation->ignored, creation->notices));
    Machines& machines = host->machines();
    Uuid const uuid = creation->machine.uuid;
    TRY_RUN(recorded(*host, uuid, "receive", "", [&] { return machines.receive(stream, head.storage, *creation); }));
    say("Successfully received VM " + uuid.text());
    return {};
}

void add_clone(CLI::App& app, Options& options) {
    add_payload(app, options);
    add_same_alias(app, options);
    app.add_option("--snapshot", options.snapshot, "Clones the content of this snapshot.");
}
void add_receive(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("-f,--file", options.file, "Reads the stream from a file (-: standard input).");
    app.add_flag("--with-filesystems", options.with_filesystems,
                 "Gives the VM the directories and volumes of this host that it asks for.");
}

}  // namespace

std::span<Command const> copy_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"clone", "", "VM [-f FILE] [KEY=VALUE...]", "makes a VM with the content of another one", add_clone,
         run_clone},
        {"receive", "recv", "[-f FILE]", "makes a VM from a stream", add_receive, run_receive},
        {"send", "", "VM", "writes a VM as a stream", add_words, run_send},
    });
    return rows;
}

}  // namespace triton::program
