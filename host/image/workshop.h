#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/content/fetcher.h"
#include "host/content/store.h"
#include "host/content/verify_job.h"
#include "host/image/catalog.h"
#include "host/image/image_service.h"
#include "host/image/observer.h"
#include "host/image/site.h"
#include "host/image/sources.h"
#include "host/storage/pool.h"

namespace triton::image {

/// What the parts of a changing command share. It belongs to one thread, except for the pool, which the builder of a
/// tree has to itself meanwhile.
struct Workshop {
    Settings settings;
    Site site;
    Configuration configuration;
    std::unique_ptr<storage::Pool> pool;
    content::Store store;
    Catalog catalog;
    Observer* observer;
    std::string owner;  ///< of this process's intents
    /// The lock of that name: whoever gets it next knows that we have died. A dry run has none.
    std::optional<content::KeyLock> alive;

    /// Who else needs what is imported now; see ImportOptions::keeper.
    std::optional<content::Owner> keeper = {};

    /// Of the blobs of an import.
    [[nodiscard]] content::Protection protection(content::LeaseId lease) const { return {lease, keeper}; }

    /// For roles that are started.
    [[nodiscard]] content::JobSettings jobs() const { return {.role = {}, .cancel = settings.cancel}; }

    /// Takes the locks of keys of the content store. Errors: of content::Store::lock().
    Result<content::KeyLock> lock(std::vector<std::string> keys, Duration patience) {
        return store.lock(std::move(keys), std::chrono::steady_clock::now() + patience, settings.cancel);
    }

    /// For the fetch of something small: tells what it waits for, and ends when the user wants to stop.
    [[nodiscard]] content::Watcher watch(std::string image) const;

    /// Errors: `refused`: "cancelled" when the user wants to stop.
    Result<> check_cancelled() const;
};

}  // namespace triton::image
