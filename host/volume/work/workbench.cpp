#include "host/volume/work/workbench.h"

#include <charconv>
#include <utility>

#include <sys/stat.h>

#include "lib/base/root_prefix.h"

namespace triton::volume {

namespace {

constexpr char clear_group[] = "volumes/clear";

/// The volume that a tree belongs to, by its name; nullopt: none that we would make.
std::optional<VolumeKey> key_of_tree(storage::TreeName const& tree) {
    std::string_view name = tree.text();
    name.remove_prefix(std::min(name.rfind('/') + 1, name.size()));
    std::size_t const dot = name.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    std::string text(name);
    text[dot] = '#';
    return VolumeKey::parse(text);
}

}  // namespace

Result<Place> read_place(std::string const& root) {
    Place place{.settings = {.root = root_prefix(root)}, .site = {}, .links = {}, .epoch = {}};
    place.site = TRY(image::read_site(place.settings));
    place.links = place.settings.root + place.settings.state + "/volumes";
    return place;
}

Result<storage::TreeName> tree_of(VolumeKey const& key, bool is_in_vault) {
    if (is_in_vault) return fail(ErrorKind::unsupported, "this host has no vault for encrypted volumes");
    return storage::TreeName::parse(std::string(clear_group) + "/" + key.id.text() + "." +
                                    std::to_string(key.generation));
}

std::string file_name(VolumeKey const& key, Format format) { return key.text() + "." + std::string(name_of(format)); }

content::Owner owner_of(std::string const& content) { return {"contentTree", content}; }

Result<Workbench> Workbench::open(Place const& place) {
    auto store = TRY(content::Store::open(place.site.content));
    auto pool = TRY(storage::open_pool(place.site.storage));
    return Workbench(place, std::move(store), std::move(pool));
}

Result<Answer> Workbench::run(Order const& order) {
    auto const without_answer = [](Result<> const& done) -> Result<Answer> {
        if (!done) return std::unexpected(done.error());
        return Answer{};
    };
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
    }
    std::unreachable();
}

Result<Workbench::Found> Workbench::look_at_trees() {
    Found found;
    for (storage::TreeName const& tree : TRY(pool_->list(clear_group))) {
        auto const key = key_of_tree(tree);
        if (key)
            found.volumes.insert(*key);
        else
            found.foreign.push_back(tree.text());
    }
    return found;
}

Result<std::uint64_t> Workbench::device() const {
    struct stat status{};
    if (::stat(place_.site.storage.path.c_str(), &status) != 0)
        return fail(errno, "look at " + place_.site.storage.path);
    return std::uint64_t{status.st_dev};
}

Result<std::uint64_t> Workbench::usage(VolumeRow const& row) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    if (layout_of(row.format) == Layout::directory) return TRY(pool_->usage(tree)).used;
    struct stat status{};
    std::string const path = pool_->path(tree) + "/" + file_name(row.key, row.format);
    if (::lstat(path.c_str(), &status) != 0) return fail(errno, "look at " + path);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

Result<> Workbench::recover() {
    TRY(pool_->recover());
    return {};
}

}  // namespace triton::volume
