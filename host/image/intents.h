#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "host/image/catalog.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// The name of the snapshot that an intent makes of a machine's tree.
storage::SnapshotName snapshot_of(IntentId intent);

/// Does the last part of an intent, which is the same for each kind, and can be done again: trees that nothing needs
/// are destroyed, half-built ones and its snapshot of a machine, too; images/<uuid>.json becomes what the catalog says;
/// then the intent goes.
Result<> finish_intent(Workshop& shop, Intent const& intent);

/// Finishes the intents of processes that have died. Those of living ones are left alone.
Result<> recover_intents(Workshop& shop);

/// The intent of a command. If it is dropped before finish(), nothing is undone now: the next command does that.
class OpenIntent {
public:
    static Result<OpenIntent> begin(Workshop& shop, std::string_view purpose, std::optional<Uuid> const& image,
                                    std::span<std::string const> chains,
                                    std::optional<std::string> const& snapshot_of = {});

    [[nodiscard]] IntentId id() const { return intent_.id; }
    Result<> add(std::string_view chain);
    /// When all is done, and also when it has failed: what is not needed goes.
    Result<> finish() { return finish_intent(*shop_, intent_); }

private:
    OpenIntent(Workshop& shop, Intent intent) : shop_(&shop), intent_(std::move(intent)) {}
    Workshop* shop_;
    Intent intent_;
};

/// The key of the lock under which a tree is made or destroyed.
std::string chain_key(std::string_view chain);

}  // namespace triton::image
