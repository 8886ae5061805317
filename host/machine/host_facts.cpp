#include "host/machine/host_facts.h"

#include <algorithm>
#include <string_view>

#include "lib/base/read_file.h"

namespace triton::machine {

namespace {

constexpr std::size_t most_bytes = 64 << 10;
constexpr std::size_t longest_release = 255;

std::string_view without_end(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.remove_suffix(1);
    return text;
}

/// The value in a line "NAME=value" or "NAME="value"". Source: os-release(5).
std::optional<std::string> value_of(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (line.size() <= name.size() || !line.starts_with(name) || line[name.size()] != '=') continue;
        line = without_end(line.substr(name.size() + 1));
        bool const is_quoted =
            line.size() >= 2 && (line.front() == '"' || line.front() == '\'') && line.back() == line.front();
        if (is_quoted) line = line.substr(1, line.size() - 2);
        bool const is_plain = std::ranges::all_of(line, [](char c) { return c > ' ' && c <= '~'; });
        if (line.empty() || line.size() > longest_release || !is_plain) return std::nullopt;
        return std::string(line);
    }
    return std::nullopt;
}

}  // namespace

HostFacts read_host_facts(std::string const& root) {
    HostFacts facts;
    if (auto const text = read_file(root + "/sys/class/dmi/id/product_uuid", most_bytes))
        facts.server_uuid = Uuid::parse(without_end(*text));
    if (auto const text = read_file(root + "/etc/os-release", most_bytes))
        facts.platform_buildstamp = value_of(*text, "TRITON_RELEASE");
    return facts;
}

}  // namespace triton::machine
