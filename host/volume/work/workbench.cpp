#include "host/volume/work/workbench.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <sys/stat.h>

#include "lib/base/root_prefix.h"

namespace triton::volume {

namespace {

constexpr char clear_group[] = "volumes/clear";
constexpr char vault_group[] = "volumes/vault";
constexpr char received_group[] = "volumes/received";

}  // namespace

std::optional<VolumeKey> key_of_tree(storage::TreeName const& tree) {
    std::string_view name = tree.text();
    name.remove_prefix(std::min(name.rfind('/') + 1, name.size()));
    std::size_t const dot = name.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    std::string text(name);
    text[dot] = '#';
    return VolumeKey::parse(text);
}

Result<Place> read_place(std::string const& root) {
    Place place{.settings = {.root = root_prefix(root)}, .site = {}, .links = {}, .epoch = {}};
    place.site = TRY(image::read_site(place.settings));
    place.links = place.settings.root + place.settings.state + "/volumes";
    return place;
}

Result<storage::TreeName> tree_of(VolumeKey const& key, bool is_in_vault) {
    return storage::TreeName::parse(std::string(is_in_vault ? vault_group : clear_group) + "/" + key.id.text() + "." +
                                    std::to_string(key.generation));
}

Result<storage::TreeName> received_tree(VolumeKey const& key) {
    return storage::TreeName::parse(std::string(received_group) + "/" + key.id.text() + "." +
                                    std::to_string(key.generation));
}

std::string file_name(VolumeKey const& key, Format format) { return key.text() + "." + std::string(name_of(format)); }

content::Owner owner_of(std::string const& content) { return {"contentTree", content}; }

Result<Workbench> Workbench::open(Place const& place) {
    auto store = TRY(content::Store::open(place.site.content));
    return Workbench(place, std::move(store));
}

Result<Answer> Workbench::run(Order const& order) {
    auto const without_answer = [](Result<> const& done) -> Result<Answer> {
        if (!done) return std::unexpected(done.error());
        return Answer{};
    };
    bool const is_in_vault = (order.job.content.empty() && order.row && order.row->is_in_vault) ||
                             std::ranges::any_of(order.volumes, &VolumeRow::is_in_vault);
    if (is_in_vault) {
        VaultState state = look_at_vault();
        if (!state.is_unlocked) return Answer{.vault_problem = std::move(state.reason)};
    }
    switch (order.job.kind) {
        case Job::Kind::resolve: return resolve(order);
        case Job::Kind::fetch: return fetch(order);
        case Job::Kind::drop: return without_answer(drop(order));
        case Job::Kind::build: {
            if (!TRY(has_content(order))) return Answer{.is_content_lost = true};
            return without_answer(build(order));
        }
        case Job::Kind::grow: return without_answer(grow(order));
        case Job::Kind::destroy: return without_answer(destroy(order));
        case Job::Kind::fetch_certificates: return without_answer(fetch_certificates(order));
        case Job::Kind::drop_certificates: return without_answer(drop_certificates(order.job.holder));
        case Job::Kind::take_snapshot: return take_snapshot(order);
        case Job::Kind::roll_back: return without_answer(roll_back(order));
        case Job::Kind::delete_snapshot: return without_answer(delete_snapshot(order));
    }
    std::unreachable();
}

Result<Workbench::Found> Workbench::look_at_trees(bool is_in_vault) {
    Found found;
    auto const add = [&found](std::vector<storage::TreeName> const& trees) {
        for (storage::TreeName const& tree : trees) {
            if (auto const key = key_of_tree(tree))
                found.volumes.insert(*key);
            else
                found.foreign.push_back(tree.text());
        }
    };
    if (!is_in_vault) {
        add(TRY(TRY(pool_of(false))->list(clear_group)));
        return found;
    }
    found.vault = look_at_vault();
    if (!found.vault.is_unlocked) return found;
    auto const vault = pool_of(true);
    auto const trees = vault ? (*vault)->list(vault_group) : std::unexpected(vault.error());
    if (trees)
        add(*trees);
    else
        found.vault = {false, trees.error().text()};
    return found;
}

Result<PoolInUse> Workbench::pool_of(bool is_in_vault) {
    if (is_in_vault) return PoolInUse(TRY(open_vault(place_.site)));
    if (!pool_) pool_ = TRY(storage::open_pool(place_.site.storage));
    return PoolInUse(*pool_);
}

Result<std::uint64_t> Workbench::device(bool is_in_vault) const {
    if (is_in_vault && !place_.site.vault) return fail(ErrorKind::not_found, "this host has no vault");
    std::string const& path = is_in_vault ? place_.site.vault->path : place_.site.storage.path;
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return fail(errno, "look at " + path);
    return std::uint64_t{status.st_dev};
}

Result<std::uint64_t> Workbench::usage(VolumeRow const& row) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    auto const pool = TRY(pool_of(row.is_in_vault));
    if (layout_of(row.format) == Layout::directory) return TRY(pool->usage(tree)).used;
    struct stat status{};
    std::string const path = pool->path(tree) + "/" + file_name(row.key, row.format);
    if (::lstat(path.c_str(), &status) != 0) return fail(errno, "look at " + path);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

Result<> Workbench::recover(bool is_in_vault) {
    if (is_in_vault && !look_at_vault().is_unlocked) return {};
    auto const pool = TRY(pool_of(is_in_vault));
    TRY(pool->recover());
    return {};
}

}  // namespace triton::volume
