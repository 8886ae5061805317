#include "host/image/installation.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "host/content/lease_keeper.h"
#include "host/image/chain_id.h"
#include "host/image/intents.h"
#include "host/image/layer_trees.h"
#include "host/image/stop_signal.h"
#include "lib/base/start_thread.h"

namespace triton::image {

namespace {

constexpr auto lock_patience = std::chrono::hours(6);
constexpr auto least_between_reports = std::chrono::milliseconds(100);

std::string title(Image const& image) { return image.uuid().text() + " (" + image.manifest.title() + ")"; }

/// Reports progress as one figure for the whole image, from any thread.
class Meter {
public:
    Meter(Observer& observer, std::string image, std::uint64_t to_download, std::uint64_t to_unpack)
        : observer_(&observer), image_(std::move(image)), to_download_(to_download), to_unpack_(to_unpack) {}

    void downloaded(std::uint64_t bytes, std::string_view waiting_for) {
        std::lock_guard const guard(mutex_);
        downloaded_ = bytes;
        if (!waiting_for.empty()) last_ = {};  // nothing else may come for a while
        waiting_for_ = waiting_for;
        report();
    }
    void unpacked(std::uint64_t bytes) {
        std::lock_guard const guard(mutex_);
        unpacked_ = bytes;
        report();
    }

private:
    void report() {
        auto const now = std::chrono::steady_clock::now();
        bool const is_downloading = downloaded_ < to_download_;
        if (now - last_ < least_between_reports) return;
        last_ = now;
        observer_->progress({.phase = is_downloading ? Phase::downloading : Phase::unpacking,
                             .image = image_,
                             .done = is_downloading ? downloaded_ : unpacked_,
                             .total = is_downloading ? to_download_ : to_unpack_,
                             .waiting_for = waiting_for_});
    }

    std::mutex mutex_;
    Observer* observer_;
    std::string image_;
    std::uint64_t to_download_, to_unpack_;
    std::uint64_t downloaded_ = 0, unpacked_ = 0;
    std::string waiting_for_;
    TimePoint last_{};
};

/// Unpacks layers in a thread of its own, in their order, each as soon as it has arrived.
class Unpacking {
public:
    Unpacking(Workshop& shop, Plan const& plan, IntentId intent, std::size_t present, StopSignal const& stop,
              Meter& meter)
        : plan_(&plan),
          present_(present),
          stop_(&stop),
          meter_(&meter),
          keeps_all_(LayerTrees(*shop.pool).keeps_all()),
          builder_(*shop.pool, intent, {.role = {}, .cancel = stop.fd()}),
          blobs_(plan.layers.size()) {}

    ~Unpacking() { give_up(); }
    Unpacking(Unpacking const&) = delete;
    Unpacking& operator=(Unpacking const&) = delete;

    /// To be called once, before the others.
    Result<> start() {
        thread_ = TRY(start_thread([this] { run(); }));
        return {};
    }

    void arrived(std::size_t layer, UniqueFd blob) {
        std::lock_guard const guard(mutex_);
        blobs_[layer] = std::move(blob);
        changed_.notify_all();
    }

    /// Waits until everything is unpacked. Returns what went wrong here, if anything.
    Result<> wait() {
        thread_.join();
        return outcome_;
    }
    /// What went wrong here, if anything. To be called after wait() or give_up().
    [[nodiscard]] Result<> const& outcome() const { return outcome_; }
    /// Whether bringing the layers failed only because it was told to stop. To be called likewise.
    [[nodiscard]] bool has_failed_first() const { return has_failed_first_; }
    /// Says that no further layer will arrive.
    void give_up() {
        {
            std::lock_guard const guard(mutex_);
            is_given_up_ = true;
            changed_.notify_all();
        }
        if (thread_.joinable()) thread_.join();
    }

private:
    void run() {
        outcome_ = build();
        std::lock_guard const guard(mutex_);
        has_failed_first_ = !outcome_ && !is_given_up_;
        if (!outcome_) stop_->raise();
    }

    Result<> build() {
        std::size_t const count = plan_->layers.size();
        if (present_ == count) return {};
        TRY(begin(present_));
        for (std::size_t i = present_; i < count; ++i) {
            UniqueFd const blob = TRY(take(i));
            TRY(unpack(i, blob.get()));
            bool const is_last = i + 1 == count;
            if (!is_last && !keeps_all_) continue;
            TRY(builder_.finish(plan_->layers[i].chain));
            if (!is_last) TRY(begin(i + 1));
        }
        return {};
    }

    /// With the lowest `below` layers.
    Result<> begin(std::size_t below) {
        return builder_.begin(below == 0 ? std::nullopt : std::optional(plan_->layers[below - 1].chain));
    }

    Result<UniqueFd> take(std::size_t layer) {
        std::unique_lock guard(mutex_);
        changed_.wait(guard, [&] { return blobs_[layer].has_value() || is_given_up_; });
        if (!blobs_[layer]) return fail(ErrorKind::refused, "cancelled");
        return *std::exchange(blobs_[layer], std::nullopt);
    }

    Result<> unpack(std::size_t layer, int blob) {
        auto const report = [this](role::Unpacking const& progress) { meter_->unpacked(done_ + progress.read); };
        auto const unpacked = builder_.apply(blob, ArchiveKind::layer, plan_->diff_ids[layer], report);
        if (!unpacked) {
            Error error = unpacked.error();
            error.details.push_back("it happened in layer " + std::to_string(layer + 1) + " of " +
                                    std::to_string(plan_->layers.size()) + ", " + plan_->layers[layer].blob);
            return std::unexpected(std::move(error));
        }
        done_ += plan_->descriptors[layer].size;
        return {};
    }

    Plan const* plan_;
    std::size_t present_;
    StopSignal const* stop_;
    Meter* meter_;
    bool keeps_all_;
    TreeBuilder builder_;
    std::uint64_t done_ = 0;
    Result<> outcome_ = {};

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::optional<UniqueFd>> blobs_;
    bool is_given_up_ = false;
    bool has_failed_first_ = false;
    std::thread thread_;
};

std::vector<std::string> chains_of(Plan const& plan) {
    std::vector<std::string> chains;
    for (Layer const& layer : plan.layers)
        chains.push_back(layer.chain);
    return chains;
}

std::vector<std::string> chain_keys(Plan const& plan) {
    std::vector<std::string> keys;
    for (Layer const& layer : plan.layers)
        keys.push_back(chain_key(layer.chain));
    return keys;
}

/// The layers that are needed, each once, with the places that have it.
struct Wanted {
    std::vector<Descriptor> descriptors;
    std::vector<std::vector<std::size_t>> places;
    std::uint64_t bytes = 0;
};

/// The layers above the lowest `present`, of which there is a tree, and those below whose blob has been lost.
Wanted wanted_layers(Plan const& plan, std::size_t present, std::optional<Damage> const& damage) {
    auto const is_lost = [&damage](std::string const& digest) {
        return damage &&
               std::ranges::any_of(damage->blobs, [&digest](role::Digest const& one) { return one.text() == digest; });
    };
    Wanted wanted;
    std::map<std::string, std::size_t> known;
    for (std::size_t i = 0; i < plan.descriptors.size(); ++i) {
        if (i < present && !is_lost(plan.descriptors[i].digest)) continue;
        auto const [place, is_new] = known.try_emplace(plan.descriptors[i].digest, wanted.descriptors.size());
        if (is_new) {
            wanted.descriptors.push_back(plan.descriptors[i]);
            wanted.places.emplace_back();
            wanted.bytes += plan.descriptors[i].size;
        }
        wanted.places[place->second].push_back(i);
    }
    return wanted;
}

std::uint64_t size_of_layers(Plan const& plan, std::size_t from) {
    std::uint64_t bytes = 0;
    for (std::size_t i = from; i < plan.descriptors.size(); ++i)
        bytes += plan.descriptors[i].size;
    return bytes;
}

Result<> bring_and_unpack(Workshop& shop, OciOrigin& origin, Plan const& plan, IntentId intent, std::size_t present,
                          std::optional<Damage> const& damage) {
    StopSignal const stop = TRY(StopSignal::make(shop.settings.cancel));
    Wanted const wanted = wanted_layers(plan, present, damage);
    Meter meter(*shop.observer, plan.shown, wanted.bytes, size_of_layers(plan, present));
    Unpacking unpacking(shop, plan, intent, present, stop, meter);
    TRY(unpacking.start());
    auto const arrived = [&](std::size_t index, content::Blob const& blob) -> Result<> {
        for (std::size_t const layer : wanted.places[index])
            unpacking.arrived(layer, TRY(shop.store.open_blob(blob.digest)));
        return {};
    };
    auto const brought = origin.bring(
        wanted.descriptors,
        {.arrived = arrived,
         .progress = [&](std::uint64_t bytes, std::string_view waiting_for) { meter.downloaded(bytes, waiting_for); },
         .cancel = stop.fd()});
    if (!brought) {
        stop.raise();
        unpacking.give_up();
        TRY(shop.check_cancelled());
        // If unpacking has failed first, bringing the layers was only told to stop.
        return unpacking.has_failed_first() ? unpacking.outcome() : brought;
    }
    return unpacking.wait();
}

/// Records everything that makes it an image, in one step.
Result<> enter(Workshop& shop, Plan const& plan) {
    // From here on no blob is collected that is found, although no lease protects it.
    content::Transaction transaction = TRY(shop.store.database().begin());
    auto const& origin = plan.image.manifest.origin;
    if (origin && !TRY(shop.catalog.has(*origin)))
        return fail(ErrorKind::not_found,
                    "image " + origin->text() + ", of which it is an increment, was deleted meanwhile");
    std::vector<role::Digest> blobs = plan.documents;
    for (Layer const& layer : plan.layers) {
        auto const digest = TRY(role::Digest::parse(layer.blob));
        // A layer whose tree existed before may not have been downloaded.
        if (TRY(shop.store.find(digest))) blobs.push_back(digest);
    }
    std::ranges::sort(blobs);
    auto const again = std::ranges::unique(blobs);
    blobs.erase(again.begin(), again.end());
    content::Owner const owner{"image", plan.image.uuid().text()};
    if (TRY(shop.catalog.has(plan.image.uuid()))) {  // it is repaired
        TRY(shop.catalog.replace_layers(plan.image, plan.layers));
        TRY(shop.store.remove_references(owner));
    } else {
        TRY(shop.catalog.add(plan.image, plan.layers));
    }
    TRY(shop.store.add_references(owner, blobs));
    if (plan.latch) TRY(shop.catalog.set_latch(*plan.latch));
    return transaction.commit();
}

void complete(Plan& plan) {
    plan.image.tree = LayerTrees::tree_of(plan.layers.back().chain).text();
    plan.image.installed_at = ::time(nullptr);
    plan.image.size = size_of_layers(plan, 0);
}

/// Ends an import, whether or not it has worked: removes what is not needed, and returns the first error.
Result<> close(OpenIntent& intent, Result<> const& worked) {
    auto const finished = intent.finish();
    return worked ? finished : worked;
}

/// Unpacks an archive as the only layer of an image, whose ChainID is then its diffID, as long as it is the same tree.
Result<> unpack_archive(Workshop& shop, content::Blob const& blob, std::string const& diff_id, Plan& plan,
                        OpenIntent& intent, RootCheck const& check) {
    UniqueFd const archive = TRY(shop.store.open_blob(blob.digest));
    Meter meter(*shop.observer, plan.shown, 0, blob.size);
    TreeBuilder builder(*shop.pool, intent.id(), shop.jobs());
    TRY(builder.begin(std::nullopt));
    auto const unpacked = TRY(builder.apply(
        archive.get(), ArchiveKind::plain, diff_id,
        [&meter](role::Unpacking const& progress) { meter.unpacked(progress.read); }));
    // A layer may change nothing, but a whole file system is not empty: a download may have failed.
    if (unpacked.entries == 0) return fail(ErrorKind::corrupt, "the archive is empty");
    if (check) {
        UniqueFd const root = TRY(builder.root());
        TRY(check(root.get()));
    }
    std::string const chain =
        unpacked.has_whiteout_names ? plain_chain_id(unpacked.diff_id.text()) : unpacked.diff_id.text();
    TRY(intent.add(chain));
    content::KeyLock const lock = TRY(shop.lock({chain_key(chain)}, lock_patience));
    if (!TRY(LayerTrees(*shop.pool).has(chain))) TRY(builder.finish(chain));
    plan.layers = {{blob.digest.text(), chain}};
    return {};
}

/// The same layer may be compressed in several ways. An image that is repaired keeps the blobs that it has, and what it
/// has lost is brought as it is now.
Result<> keep_blobs(Workshop& shop, Plan& plan, std::optional<Damage>& damage) {
    if (!damage) return {};
    auto const installed = TRY(shop.catalog.layers(plan.image.uuid()));
    if (installed.size() != plan.layers.size()) return {};
    std::vector<role::Digest> const lost = damage->blobs;
    for (std::size_t i = 0; i < installed.size(); ++i) {
        if (installed[i].chain != plan.layers[i].chain || installed[i].blob == plan.layers[i].blob) continue;
        auto const digest = TRY(role::Digest::parse(installed[i].blob));
        if (auto const blob = TRY(shop.store.find(digest))) {
            plan.layers[i].blob = installed[i].blob;
            plan.descriptors[i] = {
                .media_type = blob->facts.media_type, .digest = installed[i].blob, .size = blob->size};
        } else if (std::ranges::find(lost, digest) != lost.end()) {
            damage->blobs.push_back(TRY(role::Digest::parse(plan.layers[i].blob)));
        }
    }
    return {};
}

/// The layers of an installed image whose tree is good; otherwise none.
Result<std::vector<Layer>> intact_layers(Workshop& shop, Plan const& plan, std::optional<Damage> const& damage) {
    if (!damage || !damage->has_tree) return std::vector<Layer>();
    return shop.catalog.layers(plan.image.uuid());
}

}  // namespace

Result<WorkLease> WorkLease::make(Workshop& shop, std::string_view purpose) {
    return WorkLease(shop, TRY(shop.store.make_lease(purpose, content::LeaseKeeper::life, shop.owner)));
}

Result<> enter_image(Workshop& shop, Plan& plan) {
    complete(plan);
    return enter(shop, plan);
}

Result<std::optional<Damage>> damage_of(Workshop& shop, Uuid const& uuid) {
    auto const image = TRY(shop.catalog.find(uuid));
    if (!image) return std::optional<Damage>();
    auto const tree = TRY(storage::TreeName::parse(image->tree));
    bool const has_tree = TRY(LayerTrees(*shop.pool).has(tree));
    Damage damage{.has_tree = has_tree};
    for (role::Digest const& digest : TRY(shop.store.referenced_by({"image", uuid.text()})))
        if (!TRY(shop.store.find(digest))) damage.blobs.push_back(digest);
    return damage.has_tree && damage.blobs.empty() ? std::optional<Damage>() : damage;
}

Result<std::optional<Imported>> already_installed(Workshop& shop, Plan const& plan, ImportOptions const& options) {
    if (!TRY(shop.catalog.has(plan.image.uuid())) || TRY(damage_of(shop, plan.image.uuid()))) return std::optional<Imported>();
    if (plan.latch) TRY(shop.catalog.set_latch(*plan.latch));
    if (!options.is_quiet) shop.observer->message("Image " + title(plan.image) + " is already installed, skipping");
    return Imported{plan.image.uuid(), true};
}

void tell_installed(Workshop& shop, Image const& image, std::optional<Damage> const& damage) {
    shop.observer->message((damage ? "Repaired image " : "Imported image ") + title(image));
}

Result<Imported> install_layers(Workshop& shop, OciOrigin& origin, Plan plan, ImportOptions const& options) {
    content::KeyLock const alone = TRY(shop.lock({image_key(plan.image.uuid())}, lock_patience));
    if (auto done = TRY(already_installed(shop, plan, options))) return *done;
    auto damage = TRY(damage_of(shop, plan.image.uuid()));
    TRY(keep_blobs(shop, plan, damage));
    auto intent = TRY(OpenIntent::begin(shop, "import of " + plan.shown, plan.image.uuid(), chains_of(plan)));
    auto const work = [&]() -> Result<> {
        content::KeyLock const trees = TRY(shop.lock(chain_keys(plan), lock_patience));
        std::size_t const present = TRY(LayerTrees(*shop.pool).present(plan.layers));
        TRY(bring_and_unpack(shop, origin, plan, intent.id(), present, damage));
        shop.observer->progress({.phase = Phase::finishing, .image = plan.shown});
        return enter_image(shop, plan);
    };
    TRY(close(intent, work()));
    tell_installed(shop, plan.image, damage);
    return Imported{plan.image.uuid(), false};
}

Result<Imported> install_archive(Workshop& shop, content::Blob const& blob, std::string const& diff_id, Plan plan,
                                 ImportOptions const& options, RootCheck const& check) {
    content::KeyLock const alone = TRY(shop.lock({image_key(plan.image.uuid())}, lock_patience));
    if (auto done = TRY(already_installed(shop, plan, options))) return *done;
    auto const damage = TRY(damage_of(shop, plan.image.uuid()));
    auto intent = TRY(OpenIntent::begin(shop, "import of " + plan.shown, plan.image.uuid(), {}));
    auto const work = [&]() -> Result<> {
        shop.observer->progress({.phase = Phase::unpacking, .image = plan.shown, .total = blob.size});
        if (auto layers = TRY(intact_layers(shop, plan, damage)); layers.size() == 1 && layers[0].blob == blob.digest.text())
            plan.layers = std::move(layers);
        else
            TRY(unpack_archive(shop, blob, diff_id, plan, intent, check));
        plan.descriptors = {{.digest = blob.digest.text(), .size = blob.size}};
        shop.observer->progress({.phase = Phase::finishing, .image = plan.shown});
        return enter_image(shop, plan);
    };
    TRY(close(intent, work()));
    tell_installed(shop, plan.image, damage);
    return Imported{plan.image.uuid(), false};
}

}  // namespace triton::image
