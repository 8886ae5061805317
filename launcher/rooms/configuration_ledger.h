#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/configuration_source.h"
#include "launcher/rooms/rooms.h"
#include "launcher/upgrade/upgrade_state.h"

namespace triton::launcher {

/// Keeps which configuration is active, why the latest document was rejected, and when that was. The clients of the
/// control socket hear of each change. It decides nothing.
class ConfigurationLedger {
public:
    /// The line outlives this.
    explicit ConfigurationLedger(ControlLine const& line) : line_(line) {}

    void accept(Accepted accepted);
    /// The active one says the same as before, and is written this way now, with these oddities.
    void accept_words(std::string text, std::vector<std::string> warnings);
    /// Returns false when this is known already: the same document, for the same reasons.
    bool reject(std::vector<std::string> errors, std::size_t document);
    void forget_rejection();

    /// Null: none is active.
    [[nodiscard]] Accepted const* active() const { return active_ ? &*active_ : nullptr; }
    /// Why the latest document was rejected; empty: it was not.
    [[nodiscard]] std::vector<std::string> const& rejection() const { return rejection_; }
    /// Whether the active one is made of the same programs.
    [[nodiscard]] bool says_the_same(Accepted const& loaded) const;
    /// As the clients of the control socket see it.
    [[nodiscard]] ActiveConfiguration state() const;
    /// How many have been accepted.
    [[nodiscard]] std::uint64_t changes() const { return changes_; }
    /// Microseconds since 1970; nullopt: none is active.
    [[nodiscard]] std::optional<std::int64_t> accepted_at() const;

    // For an upgrade.
    void save(UpgradeState& state) const;
    void restore(UpgradeState const& state);
    /// The text that was active, read again. It was reported already.
    void restore(Accepted accepted) { active_ = std::move(accepted); }

private:
    void note_acceptance();
    void note_change();

    ControlLine const& line_;
    std::optional<Accepted> active_;
    std::uint64_t sequence_ = 0;
    std::uint64_t changes_ = 0;
    std::int64_t accepted_at_ = 0;  // microseconds since 1970
    std::vector<std::string> rejection_;
    std::size_t rejected_document_ = 0;  // its hash
    std::int64_t rejected_at_ = 0;       // microseconds since 1970
};

}  // namespace triton::launcher
