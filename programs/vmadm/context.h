#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/listing.h"
#include "host/machine/machines.h"
#include "host/machine/payload.h"
#include "host/parts/held_volumes.h"
#include "host/parts/host_launcher.h"
#include "host/parts/installed_images.h"
#include "host/parts/running_host.h"
#include "host/storage/pool.h"
#include "lib/base/clock.h"
#include "lib/json/reader.h"
#include "programs/vmadm/command_line.h"
#include "programs/vmadm/vminfod.h"

namespace triton::program {

/// A line on standard error.
void say(std::string_view text);

/// With --debug, a line with the time since the start.
void trace(Options const& options, std::string_view text);

/// Data for standard output. A missing reader is not an error.
Outcome print(std::string_view text);
/// The same for repeated output: `has_reader` becomes false when the reader is gone.
Outcome print(std::string_view text, bool& has_reader);

/// The environment of a command.
class Host {
public:
    static std::expected<std::unique_ptr<Host>, Failure> open(Options const& options);

    machine::Machines& machines() { return machines_; }
    machine::Units& units() { return *running_.units; }
    storage::Pool& pool() { return *pool_; }
    parts::HostLauncher& launcher() { return launcher_; }
    parts::InstalledImages& images() { return images_; }

    /// A line that --quiet leaves out.
    void note(std::string_view text) const;

    /// The end of a command that has changed a machine, or any of them: vminfod has seen it, or the user is told that
    /// it has not.
    void settle(std::optional<Uuid> const& machine);

private:
    Host(Options const& options, machine::Layout const& layout, std::unique_ptr<storage::Pool> pool);
    machine::HostParts parts();

    Options options_;
    bool has_progress_;
    Vminfod vminfod_;
    std::unique_ptr<storage::Pool> pool_;
    parts::InstalledImages images_;
    parts::HeldVolumes volumes_;
    parts::RunningHost running_;
    parts::HostLauncher launcher_;
    machine::Machines machines_;
};

/// What `vmadm get` shows of a machine.
json::Node node_of(machine::Machine const& machine);

/// Writes what was done into the history.
void record(machine::Machines& machines, Uuid const& uuid, std::string_view command, std::string outcome,
            std::string detail);

/// Runs a change of one machine, writes it into the history, and waits until vminfod has seen it: a change that fails
/// may have changed something, too.
template <class Change>
auto recorded(Host& host, Uuid const& uuid, std::string_view command, std::string detail, Change change) {
    auto result = change();
    record(host.machines(), uuid, command, result ? "ok" : result.error().text(), std::move(detail));
    host.settle(uuid);
    return result;
}

/// The payload of a command: from the file of -f, else from standard input. `refusal`: what is said when that is a
/// terminal.
std::expected<json::Object, Failure> payload(Options const& options, std::string_view refusal);

/// Puts the uuid in place of another name of an installed image.
Outcome name_image(machine::Images& images, json::Object& payload);

/// KEY=VALUE words as a payload.
std::expected<json::Object, Failure> key_value_words(std::span<std::string const> words);

/// Says what of a payload was left out or changed. Errors: with --strict, the first thing that was left out.
Outcome tell(Host const& host, Options const& options, std::vector<std::string> const& ignored,
             std::vector<std::string> const& notices);

// --- which machines ---

/// `what`: "filter" or "lookup", for the message.
std::expected<std::vector<machine::Filter>, Failure> filters(std::span<std::string const> words, std::string_view what);

/// Says what is wrong with machines whose files cannot be read: a command without them is not all that was asked for.
void tell_unreadable(std::span<machine::BrokenFile const> files);

/// Says why the states of machines are not known, if that is so.
void tell_unknown_states(Host const& host, machine::Machines::Listed const& listed);

/// The machine of the first word. `words`: how many the command takes.
std::expected<Uuid, Failure> one_machine(machine::Machines& machines, Options const& options, std::string_view command,
                                         std::size_t words = 1);

/// Those that the words name, each by itself, or all those that fulfil the conditions. Errors of conditions: also those
/// of systemd, when it does not tell the states of machines.
std::expected<std::vector<Uuid>, Failure> several_machines(machine::Machines& machines, Options const& options,
                                                           std::string_view command);

using Each = std::function<Result<>(Host& host, Uuid const& uuid)>;

/// Does something with each machine; tells each error, and continues after it.
Outcome for_each_machine(Options const& options, std::string_view command, Each const& each);
/// The same side by side, in processes of our own: what takes long for each machine takes no longer for several.
Outcome for_each_machine_at_once(Options const& options, std::string_view command, Each const& each);

// --- options that several commands have ---

void add_words(CLI::App& app, Options& options);
void add_same_alias(CLI::App& app, Options& options);
void add_payload(CLI::App& app, Options& options);

}  // namespace triton::program
