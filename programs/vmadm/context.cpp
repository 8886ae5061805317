#include "programs/vmadm/context.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/machine/names.h"
#include "host/machine/properties.h"
#include "host/parts/host_pool.h"
#include "host/parts/libexec.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"
#include "lib/text/printable.h"

namespace triton::program {

namespace {

using machine::Machine;
using machine::Machines;

constexpr std::size_t most_payload_bytes = 16 << 20;
constexpr char missing_machine[] = ": which VM? vmadm list shows all";

}  // namespace

void say(std::string_view text) { (void)write_all(STDERR_FILENO, std::string(text) + "\n"); }  // nobody to tell

void trace(Options const& options, std::string_view text) {
    static auto const begin = std::chrono::steady_clock::now();
    if (!options.is_debug) return;
    auto const passed = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin).count();
    std::string milli = std::to_string(passed % 1000);
    say("debug: " + std::to_string(passed / 1000) + "." + milli.insert(0, 3 - milli.size(), '0') +
        " s: " + text::printable(text));
}

Outcome print(std::string_view text) {
    bool has_reader = true;
    return print(text, has_reader);
}

Outcome print(std::string_view text, bool& has_reader) {
    if (write_all(STDOUT_FILENO, text)) return {};
    has_reader = false;
    if (errno == EPIPE) return {};
    return std::unexpected(Failure{fail(errno, "write the output").error()});
}

std::expected<std::unique_ptr<Host>, Failure> Host::open(Options const& options) {
    machine::Layout layout{options.root};
    // a mistyped root must not look like a host without VMs
    struct stat status{};
    if (!options.root.empty() && ::stat(options.root.c_str(), &status) != 0)
        return std::unexpected(Failure{fail(errno, "open the root directory " + options.root).error()});
    trace(options, "opens the pool of " + (options.root.empty() ? "this host" : options.root));
    auto pool = TRY_RUN(parts::open_host_pool(layout));
    return std::unique_ptr<Host>(new Host(options, layout, std::move(pool)));
}

Host::Host(Options const& options, machine::Layout const& layout, std::unique_ptr<storage::Pool> pool)
    : options_(options),
      has_progress_(options.is_verbose || options.is_debug || (!options.is_quiet && ::isatty(STDERR_FILENO) == 1)),
      vminfod_(options),
      pool_(std::move(pool)),
      images_(layout),
      volumes_(layout),
      running_(parts::running_host(layout, options.command)),
      machines_(layout, parts()) {}

void Host::note(std::string_view text) const {
    if (!options_.is_quiet) say(text);
}

void Host::settle(std::optional<Uuid> const& machine) {
    if (auto const settled = vminfod_.settle(machine); !settled)
        note(text::printable("note: vminfod may not know yet what has changed: " + settled.error().text()));
}

machine::HostParts Host::parts() {
    machine::HostParts parts{
        .pool = *pool_, .images = images_, .units = *running_.units, .launcher = launcher_, .now = wall_microseconds};
    parts.networks = running_.networks.get();
    parts.volumes = &volumes_;
    parts.metadata_client = parts::libexec_program("triton-mdata").value_or("");
    parts.notice = [this](std::string const& text) { note(text); };
    if (has_progress_)
        parts.progress = [this](std::string_view operation, std::string_view step) {
            std::string const line = std::string(operation) + ": " + std::string(step);
            options_.is_debug ? trace(options_, line) : say(line);
        };
    return parts;
}

json::Node node_of(Machine const& machine) {
    json::ProblemList problems(1);
    auto node = json::read_json(machine::public_text(machine),
                                json::Limits{.document_bytes = 64 << 20, .values = 1 << 22}, problems);
    return node ? std::move(*node) : json::Node{};
}

namespace {

/// The name that the caller has given its request, so that the caller's records and our history can be compared.
std::string request_id() {
    constexpr std::size_t longest = 128;
    char const* const given = std::getenv("REQ_ID");
    std::string_view const text = given ? given : "";
    bool const is_plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
    return is_plain && text.size() <= longest ? std::string(text) : "";
}

}  // namespace

void record(Machines& machines, Uuid const& uuid, std::string_view command, std::string outcome, std::string detail) {
    machine::Event event{wall_microseconds(), uuid, std::string(command), std::move(outcome), std::move(detail)};
    event.request = request_id();
    if (auto added = machines.store().add_event(event); !added)
        say("note: the history misses this: " + added.error().text());
}

// --- payloads ---

namespace {

std::expected<std::string, Failure> payload_text(Options const& options, std::string_view refusal) {
    if (!options.file.empty() && options.file != "-") {
        auto text = read_input_file(options.file, most_payload_bytes);
        if (!text && text.error().kind == ErrorKind::not_found)
            return std::unexpected(
                Failure{fail(ErrorKind::not_found, "File: " + options.file + " does not exist.").error()});
        return TRY_RUN(std::move(text));
    }
    if (::isatty(STDIN_FILENO) == 1) return usage(std::string(refusal));
    return TRY_RUN(read_standard_input(most_payload_bytes));
}

}  // namespace

std::expected<json::Object, Failure> payload(Options const& options, std::string_view refusal) {
    auto const text = TRY_RUN(payload_text(options, refusal));
    auto read = machine::read_payload(text);
    if (!read && !options.file.empty() && options.file != "-")
        read = fail(read.error().kind, options.file + ": " + read.error().text());
    return TRY_RUN(std::move(read));
}

Outcome name_image(machine::Images& images, json::Object& payload) {
    for (json::Member& member : payload) {
        if (member.key != "image_uuid" && member.key != "dataset_uuid") continue;
        auto const* const name = member.node.get<std::string>();
        if (!name || name->empty() || Uuid::parse(*name)) continue;
        Uuid const uuid = TRY_RUN(machine::find_image(*name, TRY_RUN(images.list())));
        member.node = json::Node{uuid.text()};
    }
    return {};
}

std::expected<json::Object, Failure> key_value_words(std::span<std::string const> words) {
    json::Object object;
    for (std::string const& word : words) {
        std::size_t const equals = word.find('=');
        if (equals == std::string::npos || equals == 0)
            return usage(json::quoted(word) + " is not a property with its value: expected KEY=VALUE");
        if (word.substr(0, equals).find('.') != std::string::npos)
            return usage(json::quoted(word) +
                         ": parts of properties are updated by JSON, see update_nics and set_tags");
        object.push_back({word.substr(0, equals), json::Node{word.substr(equals + 1)}});
    }
    return object;
}

Outcome tell(Host const& host, Options const& options, std::vector<std::string> const& ignored,
             std::vector<std::string> const& notices) {
    if (options.is_strict && !ignored.empty()) return std::unexpected(Failure{fail(ignored.front()).error()});
    for (std::string const& text : ignored)
        host.note("ignored: " + text);
    for (std::string const& text : notices)
        host.note("note: " + text);
    return {};
}

// --- which machines ---

std::expected<std::vector<machine::Filter>, Failure> filters(std::span<std::string const> words,
                                                             std::string_view what) {
    std::vector<machine::Filter> filters;
    for (std::string const& word : words) {
        if (word.find('=') == std::string::npos)
            return usage(json::quoted(word) + " is not a condition: expected KEY=VALUE");
        filters.push_back(TRY_RUN(machine::Filter::parse(word, what)));
    }
    return filters;
}

void tell_unreadable(std::span<machine::BrokenFile const> files) {
    for (machine::BrokenFile const& file : files)
        say(text::printable(file.error.text()));
}

void tell_unknown_states(Host const& host, Machines::Listed const& listed) {
    if (listed.states || listed.states.error().kind == ErrorKind::unavailable) return;  // there is no systemd
    host.note(text::printable("the states of VMs are not known: " + listed.states.error().text()));
}

std::expected<Uuid, Failure> one_machine(Machines& machines, Options const& options, std::string_view command,
                                         std::size_t words) {
    if (options.words.empty() || options.words.front().empty())
        return usage("Invalid or missing UUID for " + std::string(command) + missing_machine);
    if (options.words.size() > words)
        return usage("too many arguments for " + std::string(command) + ": " + json::quoted(options.words[words]));
    return TRY_RUN(machines.find(options.words.front()));
}

namespace {

/// It may take long until it is the turn of the last one.
void keep_to(Machines& machines, std::vector<machine::Filter> const& wanted) {
    machines.only_while([wanted](Machine const& machine) { return machine::matches_all(wanted, node_of(machine)); });
}

}  // namespace

std::expected<std::vector<Uuid>, Failure> several_machines(Machines& machines, Options const& options,
                                                           std::string_view command) {
    if (options.words.empty() || options.words.front().empty())
        return usage("Invalid or missing UUID for " + std::string(command) + missing_machine);
    std::vector<Uuid> uuids;
    if (options.words.front().find('=') == std::string::npos) {
        for (std::string const& word : options.words)
            uuids.push_back(TRY_RUN(machines.find(word)));
        return uuids;
    }
    auto const wanted = TRY_RUN(filters(options.words, "filter"));
    auto const listed = TRY_RUN(machines.list());
    // Without an answer of systemd, machines that run would count as stopped.
    TRY_RUN(listed.states);
    tell_unreadable(listed.broken);
    for (Machine const& machine : listed.machines)
        if (machine::matches_all(wanted, node_of(machine))) uuids.push_back(machine.uuid);
    if (!options.only.empty())
        std::erase_if(uuids,
                      [&](Uuid const& uuid) { return std::ranges::find(options.only, uuid) == options.only.end(); });
    if (uuids.empty())
        return std::unexpected(Failure{fail(ErrorKind::not_found, "no VM fulfils these conditions").error()});
    keep_to(machines, wanted);
    return uuids;
}

namespace {

constexpr std::size_t most_at_once = 8;

Outcome some_failed() { return std::unexpected(Failure{.error = {}, .exit_code = 1, .is_told = true}); }

/// Returns whether it was done.
bool do_one(Host& host, Uuid const& uuid, Options const& options, Each const& each) {
    Result<> const done = each(host, uuid);
    if (!done) tell_error(done.error(), options.has_json_errors);
    return done.has_value();
}

/// Opens everything anew, since nothing that the parent had open may be used on this side of a fork.
[[noreturn]] void do_one_alone(Uuid const& uuid, Options const& options, Each const& each, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    auto const act = [&]() -> Outcome {
        auto const host = TRY_RUN(Host::open(options));
        if (options.words.front().contains('=')) keep_to(host->machines(), TRY_RUN(filters(options.words, "filter")));
        return do_one(*host, uuid, options, each) ? Outcome() : some_failed();
    };
    Outcome const outcome = act();
    if (!outcome && !outcome.error().is_told) tell_error(outcome.error().error, options.has_json_errors);
    ::_exit(outcome ? 0 : 1);
}

/// Waits for one of them. Returns whether it has succeeded.
bool reap_one(std::vector<pid_t>& children) {
    int status = 0;
    pid_t ended = -1;
    while ((ended = ::waitpid(-1, &status, 0)) < 0 && errno == EINTR) {
    }
    if (ended < 0) children.clear();
    std::erase(children, ended);
    return ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

Outcome for_each_machine(Options const& options, std::string_view command, Each const& each) {
    auto const host = TRY_RUN(Host::open(options));
    auto const uuids = TRY_RUN(several_machines(host->machines(), options, command));
    bool is_done = true;
    for (Uuid const& uuid : uuids)
        is_done = do_one(*host, uuid, options, each) && is_done;
    return is_done ? Outcome() : some_failed();
}

Outcome for_each_machine_at_once(Options const& options, std::string_view command, Each const& each) {
    auto host = TRY_RUN(Host::open(options));
    auto const uuids = TRY_RUN(several_machines(host->machines(), options, command));
    if (uuids.size() == 1) return do_one(*host, uuids.front(), options, each) ? Outcome() : some_failed();
    host.reset();
    bool is_done = true;
    std::vector<pid_t> children;
    pid_t const parent = ::getpid();
    for (Uuid const& uuid : uuids) {
        if (children.size() >= most_at_once) is_done = reap_one(children) && is_done;
        pid_t const child = ::fork();
        if (child == 0) do_one_alone(uuid, options, each, parent);
        if (child < 0) {
            tell_error(fail(errno, std::string(command) + " VM " + uuid.text()).error(), options.has_json_errors);
            is_done = false;
        } else {
            children.push_back(child);
        }
    }
    while (!children.empty())
        is_done = reap_one(children) && is_done;
    return is_done ? Outcome() : some_failed();
}

// --- options that several commands have ---

void add_words(CLI::App& app, Options& options) { app.add_option("words", options.words); }

void add_same_alias(CLI::App& app, Options& options) {
    app.add_flag("--same-alias", options.may_alias_repeat, "Takes an alias that another VM has already.");
}

void add_payload(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("-f,--file", options.file, "Reads the payload from a file (-: standard input).");
    app.add_flag("--strict", options.is_strict, "Fails if a key would be ignored.");
}

}  // namespace triton::program
