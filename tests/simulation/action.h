#pragma once

#include <cstddef>
#include <type_traits>
#include <variant>

#include "launcher/supervisor/actions.h"

// An action as one of its alternatives, whether that is an effect or a report.

namespace triton::simulation {

/// Returns null when the action is something else.
template <class T>
T const* as(launcher::Action const& action) {
    auto const as_one = [](auto const& which) -> T const* {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(which)>, T>) {
            return &which;
        } else {
            return nullptr;
        }
    };
    return std::visit([&](auto const& effect_or_report) { return std::visit(as_one, effect_or_report); }, action);
}

inline constexpr std::size_t kinds_of_action =
    std::variant_size_v<launcher::Effect> + std::variant_size_v<launcher::Report>;

/// Effects first, then reports, both in the order of their declaration.
inline std::size_t kind_of(launcher::Action const& action) {
    if (auto const* const effect = std::get_if<launcher::Effect>(&action)) return effect->index();
    return std::variant_size_v<launcher::Effect> + std::get<launcher::Report>(action).index();
}

}  // namespace triton::simulation
