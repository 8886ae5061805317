#include <algorithm>
#include <csignal>
#include <iostream>
#include <string>

#include <unistd.h>

#include "host/machine/names.h"
#include "host/machine/values.h"
#include "lib/base/signal_names.h"
#include "lib/base/signal_text.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"
#include "lib/text/printable.h"
#include "programs/vmadm/context.h"

namespace triton::program {

namespace {

using machine::Machine;
using machine::Machines;

/// create IMAGE KEY=VALUE...: a payload without JSON.
std::expected<json::Object, Failure> payload_of_words(Options const& options) {
    if (!options.file.empty()) return usage("create takes either a file or IMAGE and key=value words");
    std::string const& image = options.words.front();
    if (image.empty() || image.contains('=')) return usage("expected: create IMAGE [KEY=VALUE...], see imgadm list");
    auto given = TRY_RUN(key_value_words(std::span(options.words).subspan(1)));
    given.push_back({"image_uuid", json::Node{image}});
    if (std::ranges::find(given, "brand", &json::Member::key) == given.end())
        given.push_back({"brand", json::Node{std::string("lx")}});
    return given;
}

Outcome run_create(Options const& options) {
    auto given =
        options.words.empty()
            ? TRY_RUN(payload(options, "Will not create from stdin when stdin is a tty; see vmadm create IMAGE."))
            : TRY_RUN(payload_of_words(options));
    auto const host = TRY_RUN(Host::open(options));
    TRY_RUN(name_image(host->images(), given));
    auto const creation = machine::read_creation(given, wall_microseconds());
    if (!creation) return std::unexpected(Failure{creation.error().error("create VM")});
    if (!options.words.empty() && !creation->ignored.empty())  // who types a word means it
        return std::unexpected(Failure{fail(creation->ignored.front()).error()});
    TRY_RUN(tell(*host, options, creation->ignored, creation->notices));
    Uuid const uuid = creation->machine.uuid;
    Machines& machines = host->machines();
    if (options.may_alias_repeat) machines.let_aliases_repeat();
    TRY_RUN(recorded(*host, uuid, "create", "", [&] { return machines.create(*creation); }));
    say("Successfully created VM " + uuid.text());
    return {};
}

Outcome run_install(Options const& options) {
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    auto const uuid = TRY_RUN(one_machine(machines, options, "install"));
    TRY_RUN(recorded(*host, uuid, "install", "", [&] { return machines.install(uuid); }));
    say("Successfully installed VM " + uuid.text());
    return {};
}

Outcome run_start(Options const& options) {
    return for_each_machine_at_once(options, "start", [](Host& host, Uuid const& uuid) -> Result<> {
        bool const has_started = TRY(recorded(host, uuid, "start", "", [&] { return host.machines().start(uuid); }));
        say(has_started ? "Successfully started VM " + uuid.text() : "VM " + uuid.text() + " is already 'running'");
        return {};
    });
}

Outcome run_stop(Options const& options) {
    machine::StopOptions stop{.force = options.force};
    if (options.has_seconds) stop.limit = std::chrono::seconds(options.seconds);
    return for_each_machine_at_once(options, "stop", [&stop](Host& host, Uuid const& uuid) -> Result<> {
        bool const has_stopped = TRY(recorded(host, uuid, "stop", "", [&] { return host.machines().stop(uuid, stop); }));
        say(has_stopped ? "Successfully completed stop for VM " + uuid.text()
                        : "VM " + uuid.text() + " is already not 'running' (currently: stopped)");
        return {};
    });
}

Outcome run_reboot(Options const& options) {
    return for_each_machine_at_once(options, "reboot", [&options](Host& host, Uuid const& uuid) -> Result<> {
        TRY(recorded(host, uuid, "reboot", "", [&] { return host.machines().reboot(uuid, options.force); }));
        say("Successfully completed reboot for VM " + uuid.text());
        return {};
    });
}

Outcome run_kill(Options const& options) {
    int const signal = parse_signal(options.signal.data(), options.signal.data() + options.signal.size());
    if (signal < 0) return std::unexpected(Failure{fail("Unknown signal " + json::quoted(options.signal)).error()});
    return for_each_machine(options, "kill", [&](Host& host, Uuid const& uuid) -> Result<> {
        TRY(recorded(host, uuid, "kill", "", [&] { return host.machines().kill(uuid, signal); }));
        say("Sent signal \"" + signal_text(signal) + "\" to init process for VM " + uuid.text());
        return {};
    });
}

/// Names the VMs that a delete is about and, unless it is a dry run, asks at the terminal. Returns those that are to be
/// deleted.
std::expected<std::vector<Uuid>, Failure> confirmed(Options const& options) {
    auto const host = TRY_RUN(Host::open(options));
    auto uuids = TRY_RUN(several_machines(host->machines(), options, "delete"));
    for (Uuid const& uuid : uuids) {
        auto const loaded = host->machines().store().load(uuid);
        std::string const alias = loaded ? loaded->alias.value_or("") : "";
        say("would delete VM " + uuid.text() + (alias.empty() ? "" : " " + text::printable(alias)));
    }
    if (options.is_dry_run) return std::vector<Uuid>();
    (void)write_all(STDERR_FILENO, "Delete " + std::to_string(uuids.size()) + " VMs with all that they have? [y/N] ");
    std::string answer;
    std::getline(std::cin, answer);
    if (answer != "y" && answer != "Y" && answer != "yes") {
        say("Nothing was deleted.");
        uuids.clear();
    }
    return uuids;
}

Outcome run_delete(Options const& given) {
    Options options = given;
    bool const has_filters = !options.words.empty() && options.words.front().contains('=');
    if (options.is_dry_run || (has_filters && !options.is_agreed && ::isatty(STDIN_FILENO) == 1)) {
        options.only = TRY_RUN(confirmed(options));
        if (options.only.empty()) return {};
    }
    return for_each_machine_at_once(options, "delete", [](Host& host, Uuid const& uuid) -> Result<> {
        auto deleted = recorded(host, uuid, "delete", "", [&] { return host.machines().destroy(uuid); });
        if (!deleted) {
            Error error = std::move(deleted).error();
            error.reason = "Failed to delete VM " + uuid.text() + ": " + error.text();
            error.attempted.clear();
            return std::unexpected(std::move(error));
        }
        say("Successfully deleted VM " + uuid.text());
        return {};
    });
}
Outcome run_recover(Options const& options) {
    if (options.words.size() > 1) return usage("too many arguments for recover: " + json::quoted(options.words[1]));
    auto const host = TRY_RUN(Host::open(options));
    std::optional<Uuid> uuid;
    if (!options.words.empty()) {
        // a half-made machine may not be found by its name
        auto const parsed = Uuid::parse(options.words.front());
        uuid = parsed ? *parsed : TRY_RUN(host->machines().find(options.words.front()));
    }
    auto const done = host->machines().recover(uuid, [](std::string const& line) { say(text::printable(line)); });
    host->settle(uuid);
    TRY_RUN(done);
    say("Successfully recovered");
    return {};
}

Result<Uuid> image_of(Host& host, json::Member const& member) {
    auto const* const text = member.node.get<std::string>();
    if (!text) return fail(member.key + ": expected a string, found " + std::string(member.node.kind()));
    if (auto uuid = Uuid::parse(*text)) return *std::move(uuid);
    return machine::find_image(*text, TRY(host.images().list()));
}

Outcome run_reprovision(Options const& options) {
    if (options.words.empty() || options.words.front().empty()) return usage("Invalid or missing UUID for reprovision");
    auto const given = TRY_RUN(payload(options, "Will not take payload from stdin when stdin is a tty."));
    auto const host = TRY_RUN(Host::open(options));
    Machines& machines = host->machines();
    auto const uuid = TRY_RUN(one_machine(machines, options, "reprovision"));
    std::optional<Uuid> image;
    std::vector<std::string> ignored;
    for (json::Member const& member : given) {
        if (member.key == "image_uuid" || member.key == "dataset_uuid")
            image = TRY_RUN(image_of(*host, member));
        else
            ignored.push_back(member.key + " is not for reprovision");
    }
    if (!image) return std::unexpected(Failure{fail("image_uuid: required key is missing").error()});
    TRY_RUN(tell(*host, options, ignored, {}));
    TRY_RUN(recorded(*host, uuid, "reprovision", "\"" + image->text() + "\"",
                     [&] { return machines.reprovision(uuid, *image); }));
    say("Successfully reprovisioned VM " + uuid.text());
    return {};
}

/// Does not wait for vminfod, which starts later although its socket already exists.
Outcome run_prepare(Options const& options) {
    if (!options.words.empty()) return usage("too many arguments for prepare: " + json::quoted(options.words.front()));
    auto const host = TRY_RUN(Host::open(options));
    Outcome outcome;
    for (machine::BrokenFile& failed : TRY_RUN(host->machines().prepare())) {
        failed.error.reason = "VM " + failed.name + ": " + failed.error.text();
        failed.error.attempted.clear();
        tell_error(failed.error, options.has_json_errors);
        outcome = std::unexpected(Failure{.error = {}, .exit_code = 1, .is_told = true});
    }
    return outcome;
}

void add_create(CLI::App& app, Options& options) {
    add_payload(app, options);
    add_same_alias(app, options);
}

void add_delete(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-n,--dry-run", options.is_dry_run, "Names what would be deleted, and deletes nothing.");
    app.add_flag("-y,--yes", options.is_agreed, "Does not ask at a terminal before a delete by filters.");
}

void add_stop(CLI::App& app, Options& options) {
    add_words(app, options);
    CLI::Option* const force = app.add_flag("-F", options.force, "Kills the VM at once.");
    app.add_option("-t", options.seconds, "Seconds until the VM is killed (60).")
        ->excludes(force)
        ->check(CLI::Range(0, 86400))
        ->each([&options](std::string const&) { options.has_seconds = true; });
}
void add_reboot(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-F", options.force, "Kills the VM and starts it.");
}
void add_kill(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("-s", options.signal, "The signal: SIGTERM, TERM or 15.");
}

}  // namespace

std::span<Command const> life_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"create", "", "[-f FILE | IMAGE [KEY=VALUE...]]", "makes a VM from a payload, and starts it", add_create,
         run_create},
        {"delete", "destroy", "[-n] [-y] VM...", "stops VMs and removes everything that they have", add_delete,
         run_delete},
        {"install", "", "VM", "completes a VM made with create_only", add_words, run_install},
        {"kill", "", "[-s SIGNAL] VM...", "sends a signal to the init of VMs", add_kill, run_kill},
        {"prepare", "", "", "makes what systemd needs for all VMs, when the host boots", add_words, run_prepare},
        {"reboot", "", "[-F] VM...", "reboots VMs", add_reboot, run_reboot},
        {"recover", "", "[VM]", "finishes or undoes interrupted work", add_words, run_recover},
        {"reprovision", "", "VM [-f FILE]", "replaces the VM's content with another image", add_payload,
         run_reprovision},
        {"start", "boot", "VM...", "starts VMs", add_words, run_start},
        {"stop", "halt", "[-F | -t SECONDS] VM...", "stops VMs", add_stop, run_stop},
    });
    return rows;
}

}  // namespace triton::program
