// Commands that move volumes from one host to another.

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "host/content/database.h"
#include "host/volume/keep/rows.h"
#include "host/volume/work/transfer.h"
#include "programs/volumeadm/command_line.h"
#include "programs/volumeadm/manager_client.h"
#include "programs/volumeadm/publish.h"

namespace triton::program {

namespace {

using namespace volume;

void add_send_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("--snapshot", options.snapshot, "Its content as it was then.");
}

Outcome run_send(Options const& options) {
    TRY(expect_words(options, "send", 1, 1));
    if (::isatty(STDOUT_FILENO) == 1) return fail(ErrorKind::refused, "a volume is not sent to a terminal");
    Place const place = TRY(read_place(options.root));
    std::string const key = TRY(find_volume(TRY(read_statuses(options, "VolumeStatus")), options.words.front()));
    auto database = TRY(content::Database::open_for_reading(place.site.content + "/content.db"));
    auto rows = TRY(Rows::open_for_reading(database));
    if (!rows) return fail(ErrorKind::not_found, "there are no volumes");
    AllRows const all = TRY(rows->load());
    auto const row = std::ranges::find_if(all.volumes, [&key](VolumeRow const& one) { return one.key.text() == key; });
    if (row == all.volumes.end() || row->stage != VolumeRow::Stage::made)
        return fail(ErrorKind::refused, "volume " + key + " is being made or removed");
    std::optional<VolumeConfig> config;
    for (Config const& one : all.configs)
        if (auto const* const found = std::get_if<VolumeConfig>(&one); found && found->key == row->key) config = *found;
    return send_volume(place, *row, config, options.snapshot, STDOUT_FILENO);
}

void add_receive_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("-f,--file", options.file, "Reads the stream from a file (-: standard input).");
    app.add_flag("--new", options.is_new, "It gets a UUID of its own.");
    add_wait_options(app, options);
}

Outcome run_receive(Options const& options) {
    TRY(expect_words(options, "receive", 0, 1));
    bool const is_input = options.file.empty() || options.file == "-";
    if (is_input && ::isatty(STDIN_FILENO) == 1)
        return fail(ErrorKind::refused, "a volume is not read from a terminal");
    UniqueFd const file{is_input ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                 : ::open(options.file.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!file) return fail(errno, "open " + (is_input ? std::string("the standard input") : options.file));
    TRY(ManagerClient::connect(options));  // before the work of which it makes a volume
    Reception const reception{.is_new = options.is_new, .name = options.words.empty() ? "" : options.words.front()};
    return publish_volume(options, TRY(receive_volume(TRY(read_place(options.root)), reception, file.get())));
}

}  // namespace

std::span<Command const> transfer_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"receive", "[-f FILE] [--new] [NAME]", "makes a volume from the output of send",
         "volumeadm receive -f data.stream", add_receive_options, run_receive},
        {"send", "VOLUME [--snapshot NAME]", "writes a volume to standard output",
         "volumeadm send data | ssh other volumeadm receive", add_send_options, run_send},
    });
    return rows;
}

}  // namespace triton::program
