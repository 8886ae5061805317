#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "host/image/catalog.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// The name of the snapshot of a machine's tree that an intent makes.
storage::SnapshotName snapshot_of(IntentId intent);

/// Does the last part of an intent, which is the same for all kinds and may be repeated. It destroys trees that nothing
/// needs, half-built ones, and the intent's snapshot of a machine. It makes images/<uuid>.json what the catalog says.
/// Then the intent is removed. To be called while the intent's image is locked.
Result<> finish_intent(Workshop& shop, Intent const& intent);

/// Finishes the intents of processes that have died. Those of running ones are left alone, and those of an image that
/// another process is busy with are left to a later command.
Result<> recover_intents(Workshop& shop);

/// The intent of a command. If it is destroyed before finish(), nothing is undone now: the next command does that.
class OpenIntent {
public:
    static Result<OpenIntent> begin(Workshop& shop, std::string_view purpose, std::optional<Uuid> const& image,
                                    std::span<std::string const> chains,
                                    std::optional<std::string> const& snapshot_of = {});

    [[nodiscard]] IntentId id() const { return intent_.id; }
    Result<> add(std::string_view chain);
    /// To be called when everything is done or has failed: removes what is not needed.
    Result<> finish() { return finish_intent(*shop_, intent_); }

private:
    OpenIntent(Workshop& shop, Intent intent) : shop_(&shop), intent_(std::move(intent)) {}
    Workshop* shop_;
    Intent intent_;
};

/// The key of the lock that is held while a tree is made or destroyed.
std::string chain_key(std::string_view chain);
/// The key of the lock that is held while an image is installed or removed.
std::string image_key(Uuid const& image);

}  // namespace triton::image
