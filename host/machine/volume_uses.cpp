#include "host/machine/volume_uses.h"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string_view>
#include <utility>

#include <fcntl.h>

#include "host/storage/remove_tree.h"
#include "lib/base/read_file.h"

namespace triton::machine {

namespace {

constexpr std::size_t most_record_bytes = 1 << 20;
constexpr std::string_view read_word = "ro";
constexpr std::string_view write_word = "rw";

std::string attached_file(Layout const& layout, Uuid const& machine) {
    return volume_links(layout, machine) + "/attached";
}
std::string awaited_file(Layout const& layout, Uuid const& machine) {
    return volume_links(layout, machine) + "/awaited";
}

}  // namespace

std::vector<VolumeUse> merged(std::vector<VolumeUse> uses, std::vector<VolumeUse> const& more) {
    for (VolumeUse const& use : more) {
        auto const same = std::ranges::find(uses, use.volume, &VolumeUse::volume);
        if (same == uses.end())
            uses.push_back(use);
        else
            same->is_read_only = same->is_read_only && use.is_read_only;
    }
    return uses;
}

std::vector<VolumeUse> volume_uses(Machine const& machine) {
    std::vector<VolumeUse> uses;
    for (Filesystem const& filesystem : machine.filesystems)
        if (is_volume(filesystem)) uses = merged(std::move(uses), {{filesystem.source, is_read_only(filesystem)}});
    return uses;
}

std::string volume_links(Layout const& layout, Uuid const& machine) {
    return layout.volume_links() + "/" + machine.text();
}

Result<std::vector<VolumeUse>> attached_volumes(Layout const& layout, Uuid const& machine) {
    std::string const path = attached_file(layout, machine);
    auto const text = read_file(path, most_record_bytes);
    if (!text && text.error().kind == ErrorKind::not_found) return std::vector<VolumeUse>();
    if (!text) return std::unexpected(text.error());
    std::vector<VolumeUse> uses;
    std::istringstream lines(*text);
    std::string mode;
    std::string volume;
    while (lines >> mode >> volume) {
        if (mode != read_word && mode != write_word)
            return fail(ErrorKind::corrupt, "read " + path, "it has a line of " + mode);
        uses.push_back({volume, mode == read_word});
    }
    return uses;
}

Result<> save_attached_volumes(Layout const& layout, Uuid const& machine, std::vector<VolumeUse> const& uses) {
    std::string text;
    for (VolumeUse const& use : uses)
        text.append(use.is_read_only ? read_word : write_word).append(" ").append(use.volume).append("\n");
    return replace_file(attached_file(layout, machine), text, 0600);
}

std::string awaited_volume(Layout const& layout, Uuid const& machine) {
    return read_file(awaited_file(layout, machine), most_record_bytes).value_or("");
}

Result<> save_awaited_volume(Layout const& layout, Uuid const& machine, std::string const& text) {
    if (text.empty()) return remove_file(awaited_file(layout, machine));
    return replace_file(awaited_file(layout, machine), text, 0644);
}

Result<> remove_volume_links(Layout const& layout, Uuid const& machine) {
    UniqueFd const all{::open(layout.volume_links().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (!all && errno == ENOENT) return {};
    if (!all) return fail(errno, "open " + layout.volume_links());
    return storage::remove_tree(all.get(), machine.text());
}

}  // namespace triton::machine
