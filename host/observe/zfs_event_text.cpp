#include "host/observe/zfs_event_text.h"

#include <algorithm>

namespace triton::observe {

std::optional<Uuid> machine_of_dataset(std::string_view dataset) {
    constexpr std::string_view group = "/machines/";
    std::size_t const at = dataset.find(group);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view name = dataset.substr(at + group.size());
    return Uuid::parse(name.substr(0, name.find('@')));
}

void ZfsEventText::take_line(std::string_view line, Tell const& tell) {
    constexpr std::string_view key = "history_dsname = \"";
    constexpr std::string_view dropped = "dropped ";
    if (line.starts_with(dropped)) return tell.dropped();
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(key) || !line.ends_with('"') || line.size() == key.size()) return;
    if (auto const machine = machine_of_dataset(line.substr(key.size(), line.size() - key.size() - 1)))
        tell.machine(*machine);
}

void ZfsEventText::take(std::string_view bytes, Tell const& tell) {
    while (!bytes.empty()) {
        std::size_t const end = std::min(bytes.find('\n'), bytes.size());
        if (line_.size() + end > longest_line) is_too_long_ = true;
        if (!is_too_long_) line_ += bytes.substr(0, end);
        if (end == bytes.size()) return;
        if (!is_too_long_) take_line(line_, tell);
        line_.clear();
        is_too_long_ = false;
        bytes.remove_prefix(end + 1);
    }
}

}  // namespace triton::observe
