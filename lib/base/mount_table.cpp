#include "lib/base/mount_table.h"

#include <algorithm>

namespace triton {

namespace {

std::string_view take_until(std::string_view& text, std::string_view separator) {
    std::size_t const end = std::min(text.find(separator), text.size());
    std::string_view const taken = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + separator.size()));
    return taken;
}

bool is_at_or_below(std::string_view path, std::string_view above) {
    if (above == "/") return path.starts_with('/');
    return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

}  // namespace

std::optional<MountLine> parse_mount_line(std::string_view line) {
    // One field at least stands before the separator, so that an absent optional field leaves no empty word.
    std::size_t const separator = line.find(" - ");
    if (separator == std::string_view::npos) return std::nullopt;
    std::string_view before = line.substr(0, separator);
    std::string_view after = line.substr(separator + 3);
    MountLine mount;
    for (int skipped = 0; skipped < 3; ++skipped)
        take_until(before, " ");  // mount id, parent, device
    mount.root = take_until(before, " ");
    mount.point = take_until(before, " ");
    take_until(before, " ");  // options of the mount
    mount.optional = before;
    mount.type = take_until(after, " ");
    mount.source = take_until(after, " ");
    if (!mount.root.empty() && mount.point.starts_with('/') && !mount.type.empty()) return mount;
    return std::nullopt;
}

std::string unescape_mount_path(std::string_view text) {
    std::string plain;
    auto const is_octal = [](char digit) { return digit >= '0' && digit <= '7'; };
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size() && std::ranges::all_of(text.substr(i + 1, 3), is_octal)) {
            plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

std::optional<MountLine> mount_above(std::string_view mountinfo, std::string_view path) {
    std::optional<MountLine> found;
    std::size_t longest = 0;
    while (!mountinfo.empty()) {
        auto const mount = parse_mount_line(take_until(mountinfo, "\n"));
        if (!mount) continue;
        std::string const point = unescape_mount_path(mount->point);
        if (point.size() < longest || !is_at_or_below(path, point)) continue;
        longest = point.size();
        found = mount;
    }
    return found;
}

}  // namespace triton
