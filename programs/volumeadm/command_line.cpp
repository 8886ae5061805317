#include "programs/volumeadm/command_line.h"

#include <algorithm>
#include <array>

#include "lib/base/new_calls.h"

namespace triton::program {

namespace {

/// Whether the words of a command are volumes.
bool takes_volumes(CLI::App const& command) {
    Command const* const row = find_command(command.get_name());
    return row && row->arguments.find("VOLUME") != std::string_view::npos;
}
constexpr Things volumes{"VOLUME", "volumeadm list -H -o key 2>/dev/null", takes_volumes};

std::vector<Offer> offers() {
    return {
        {"create", "--layout", {"directory", "file"}},
        {"import", "--format", {"raw", "iso", "qcow", "qcow2", "vmdk", "vhd", "vhdx", "container"}},
        {"list",
         "--kind",
         {"volumes", "content", "blobs", "downloads", "verifications", "certificates", "users", "snapshots", "disks"}},
        {"import", "--signature", {"minisign", "openpgp", "openpgp-sums", "cms", "x509"}},
        {"maintenance", "", {"on", "off"}},
        {"completion", "", {"bash", "zsh", "fish"}}};
}

Outcome run_completion(Options const& options) {
    TRY(expect_words(options, "completion", 1, 1));
    Options scratch;
    auto const bound = bind_rows(commands(), scratch);
    TRY(print(TRY(completion_of(volumeadm_frame, scratch, bound, options.words.front(), volumes, offers()))));
    return {};
}

Outcome prepare() { return prepare_host_program(NeededCalls::files); }

}  // namespace

std::span<Command const> commands() {
    static constexpr auto own =
        std::to_array<Command>({{"completion", "bash | zsh | fish", "prints the completion of a shell",
                                 ". <(volumeadm completion bash)", add_words, run_completion}});
    static std::vector<Command> const all =
        sorted_rows<Options>({own, look_commands(), change_commands(), transfer_commands()});
    return all;
}

Command const* find_command(std::string_view name) {
    auto const row = std::ranges::find(commands(), name, &Command::name);
    return row == commands().end() ? nullptr : &*row;
}

Frame const volumeadm_frame{
    .name = "volumeadm",
    .version = TRITON_VERSION,
    .description = "The volumes of this host",
    .daemon = "volumemgr",
    .socket = "/run/triton/volumemgr.socket",
    .error_prefix = "volumeadm: ",
    .column = 34,
    .about =
        "\nA volume is named by UUID#GENERATION, by its UUID when it has one generation, by an unambiguous beginning "
        "of\nthat, or by its name.\n\n",
    .rest =
        "\nExamples:\n"
        "  volumeadm create data\n"
        "  volumeadm create --layout file --size 4Gi disk\n"
        "  volumeadm why disk\n"
        "\nExit codes: 0 success, 1 failure, 2 usage error, 3 volumemgr does not answer, 4 timeout.\n",
    .prepare = prepare};

}  // namespace triton::program
