#include "host/volume/states.h"

#include <array>

namespace triton::volume {

std::string_view name_of(State state) {
    static constexpr std::array<std::string_view, 11> names{
        "INITIAL",  "RESOLVING_TAG", "RESOLVED_TAG", "DOWNLOADING",     "DOWNLOADED",     "VERIFYING",
        "VERIFIED", "LOADING",       "LOADED",       "CREATING_VOLUME", "CREATED_VOLUME",
    };
    static_assert(names.size() == static_cast<std::size_t>(State::created_volume) + 1);
    return names[static_cast<std::size_t>(state)];
}

std::string_view name_of(SubState state) {
    static constexpr std::array<std::string_view, 6> names{"",        "Initial", "Preparing", "PrepareDone",
                                                           "Created", "Deleting"};
    static_assert(names.size() == static_cast<std::size_t>(SubState::deleting) + 1);
    return names[static_cast<std::size_t>(state)];
}

std::string_view name_of(SnapshotState state) {
    static constexpr std::array<std::string_view, 5> names{"INITIAL", "CREATING", "CREATED", "ROLLING_BACK",
                                                           "DELETING"};
    static_assert(names.size() == static_cast<std::size_t>(SnapshotState::deleting) + 1);
    return names[static_cast<std::size_t>(state)];
}

std::string_view name_of(FailureClass failure) {
    static constexpr std::array<std::string_view, 5> names{"transient", "room", "server", "vault", "permanent"};
    static_assert(names.size() == static_cast<std::size_t>(FailureClass::permanent) + 1);
    return names[static_cast<std::size_t>(failure)];
}

}  // namespace triton::volume
