#include "programs/criadm/command_line.h"

#include <algorithm>
#include <array>

namespace triton::program {

namespace {

/// Whether the words of a command are pods or containers.
bool takes_objects(CLI::App const& command) {
    auto const row = std::ranges::find(commands(), command.get_name(), &Command::name);
    return row != commands().end() && row->arguments.find("OBJECT") != std::string_view::npos;
}
constexpr Things objects{"OBJECT", "{ criadm list -H -o object; criadm list -c -H -o object; } 2>/dev/null",
                         takes_objects};

std::vector<Offer> offers() { return {{"completion", "", {"bash", "zsh", "fish"}}}; }

Outcome run_completion(Options const& options) {
    TRY(expect_words(options, "completion", 1, 1));
    Options scratch;
    auto const bound = bind_rows(commands(), scratch);
    TRY(print(TRY(completion_of(criadm_frame, scratch, bound, options.words.front(), objects, offers()))));
    return {};
}

}  // namespace

std::span<Command const> commands() {
    static constexpr auto own =
        std::to_array<Command>({{"completion", "bash | zsh | fish", "prints the completion of a shell",
                                 ". <(criadm completion bash)", add_words, run_completion}});
    static std::vector<Command> const all =
        sorted_rows<Options>({own, look_commands(), logs_commands(), change_commands()});
    return all;
}

Frame const criadm_frame{
    .name = "criadm",
    .version = TRITON_VERSION,
    .description = "The pods and containers of this node",
    .daemon = "tritoncrid",
    .socket = "/run/triton/cri.sock",
    .error_prefix = "criadm: ",
    .column = 34,
    .about =
        "\nAn OBJECT is a pod or a container: its id, an unambiguous beginning of it, NAMESPACE/POD, or\n"
        "NAMESPACE/POD/CONTAINER. Of several attempts the newest one is meant.\n\n",
    .rest =
        "\nExamples:\n"
        "  criadm list                              lists the pods of this node\n"
        "  criadm why default/web                   says why a pod is as it is, and what would help\n"
        "  criadm logs -f default/web/nginx         prints what a container has written, and goes on\n"
        "  criadm check && echo clean               looks for what is left over\n"
        "  criadm remove default/web                removes a pod that kubelet does not remove\n"
        "\nExit codes: 0 success, 1 failure, 2 usage error, 3 tritoncrid does not answer, 4 timeout.\n"};

}  // namespace triton::program
