#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace triton::launcher {

/// How something is asked over the network whether it is well: by a connection, or by a request.
enum class ProbeKind : std::uint8_t { tcp, http };

/// Their names, in that order: in a configuration and on the wire.
inline constexpr std::array<std::string_view, 2> probe_kind_names{"tcp", "http"};
static_assert(probe_kind_names.size() == static_cast<std::size_t>(ProbeKind::http) + 1);

constexpr std::string_view name_of(ProbeKind kind) { return probe_kind_names[static_cast<std::size_t>(kind)]; }

}  // namespace triton::launcher
