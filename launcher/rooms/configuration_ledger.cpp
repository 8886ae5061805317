#include "launcher/rooms/configuration_ledger.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace triton::launcher {

namespace {

std::int64_t microseconds_since_1970() {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

void ConfigurationLedger::accept(Accepted accepted) {
    active_ = std::move(accepted);
    note_acceptance();
}

void ConfigurationLedger::accept_words(std::string text, std::vector<std::string> warnings) {
    active_->warnings = std::move(warnings);
    if (active_->text == text) return;
    active_->text = std::move(text);
    note_acceptance();
}

bool ConfigurationLedger::reject(std::vector<std::string> errors, std::size_t document) {
    if (errors == rejection_ && document == rejected_document_) return false;
    rejection_ = std::move(errors);
    rejected_document_ = document;
    rejected_at_ = microseconds_since_1970();
    note_change();
    return true;
}

void ConfigurationLedger::forget_rejection() {
    if (rejection_.empty()) return;
    rejection_.clear();
    note_change();
}

bool ConfigurationLedger::says_the_same(Accepted const& loaded) const {
    return active_ && std::ranges::equal(active_->programs, loaded.programs,
                                         [](auto const& one, auto const& other) { return *one == *other; });
}

ActiveConfiguration ConfigurationLedger::state() const {
    ActiveConfiguration state{.sequence = sequence_,
                              .text = {},
                              .environment = {},
                              .accepted_at = {},
                              .rejection = rejection_,
                              .rejected_at = {}};
    if (!rejection_.empty()) state.rejected_at = rejected_at_;
    if (active_) {
        state.text = active_->text;
        state.environment = active_->environment;
        state.accepted_at = accepted_at_;
    }
    return state;
}

std::optional<std::int64_t> ConfigurationLedger::accepted_at() const {
    return active_ ? std::optional(accepted_at_) : std::nullopt;
}

void ConfigurationLedger::note_acceptance() {
    ++changes_;
    accepted_at_ = microseconds_since_1970();
    note_change();
}

void ConfigurationLedger::note_change() {
    ++sequence_;
    line_.configuration_changed();
}

void ConfigurationLedger::save(UpgradeState& state) const {
    state.has_configuration = active_.has_value();
    if (active_) {
        state.configuration = active_->text;
        state.warnings = active_->warnings;
    }
    state.configuration_changes = changes_;
    state.configuration_time = accepted_at_;
}

void ConfigurationLedger::restore(UpgradeState const& state) {
    changes_ = state.configuration_changes;
    accepted_at_ = state.configuration_time;
    sequence_ = 1;
}

}  // namespace triton::launcher
