#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace triton {

/// The known word that was probably meant: the one at the smallest Damerau-Levenshtein distance (case ignored) if that
/// is at most a third of its length, else the only one that shares its first or last part ("runProcesses":
/// "runServers").
std::optional<std::string_view> nearest(std::string_view word, std::span<std::string_view const> known);

}  // namespace triton
