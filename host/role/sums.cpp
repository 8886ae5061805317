#include "host/role/sums.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/json/text.h"

namespace triton::role {

Result<Digest> find_sum(std::string_view sums, std::string_view name) {
    constexpr std::size_t digits = 64;
    std::optional<Digest> found;
    while (!sums.empty()) {
        std::size_t const end = std::min(sums.find('\n'), sums.size());
        std::string_view line = sums.substr(0, end);
        sums.remove_prefix(std::min(end + 1, sums.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.size() <= digits + 2 || line[digits] != ' ' || (line[digits + 1] != ' ' && line[digits + 1] != '*'))
            continue;
        if (line.substr(digits + 2) != name) continue;
        auto const digest = Digest::of_hex(line.substr(0, digits));
        if (!digest) continue;
        if (found && *found != *digest) return fail(ErrorKind::corrupt, "sums name " + json::quoted(name) + " twice");
        found = *digest;
    }
    if (!found) return fail(ErrorKind::not_found, "sums do not name " + json::quoted(name));
    return *std::move(found);
}

}  // namespace triton::role
