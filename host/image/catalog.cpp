#include "host/image/catalog.h"

#include <array>
#include <utility>

namespace triton::image {

namespace {

constexpr std::array<content::Migration, 2> migrations{{
    {R"(
    CREATE TABLE image(
        uuid TEXT PRIMARY KEY, manifest TEXT NOT NULL, tree TEXT NOT NULL, origin TEXT, source TEXT NOT NULL,
        reference TEXT NOT NULL, digest TEXT NOT NULL, platform TEXT NOT NULL, installed_at INTEGER NOT NULL,
        size INTEGER NOT NULL, is_pinned INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
    CREATE INDEX image_by_origin ON image(origin);
    CREATE TABLE image_layer(
        uuid TEXT NOT NULL, position INTEGER NOT NULL, blob TEXT NOT NULL, chain TEXT NOT NULL,
        PRIMARY KEY(uuid, position)) WITHOUT ROWID;
    CREATE INDEX image_layer_by_chain ON image_layer(chain);
    CREATE INDEX image_layer_by_blob ON image_layer(blob);
    CREATE TABLE image_latch(
        reference TEXT PRIMARY KEY, digest TEXT NOT NULL, uuid TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE image_holder(uuid TEXT NOT NULL, holder TEXT NOT NULL, PRIMARY KEY(uuid, holder)) WITHOUT ROWID;
    CREATE TABLE image_intent(
        id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, purpose TEXT NOT NULL, uuid TEXT);
    CREATE TABLE image_intent_chain(
        intent INTEGER NOT NULL, chain TEXT NOT NULL, PRIMARY KEY(intent, chain)) WITHOUT ROWID;
    CREATE INDEX image_intent_by_chain ON image_intent_chain(chain);
    )"},
    {"ALTER TABLE image_intent ADD COLUMN tree TEXT;"},
}};

constexpr std::string_view image_columns =
    "SELECT uuid, manifest, tree, source, reference, digest, platform, installed_at, size, is_pinned, "
    "(SELECT count(*) FROM image_holder WHERE image_holder.uuid = image.uuid) + "
    "(SELECT count(*) FROM image AS child WHERE child.origin = image.uuid) FROM image ";

Result<Image> image_of(content::Statement const& row) {
    Image image{
        .manifest =
            TRY(read_manifest(row.text(1), "the manifest of image " + row.text(0), ManifestUse::install)).manifest,
        .tree = row.text(2),
        .source = row.text(3),
        .reference = row.text(4),
        .digest = row.text(5),
        .platform = row.text(6),
        .installed_at = row.integer(7),
        .size = static_cast<std::uint64_t>(row.integer(8)),
        .clones = static_cast<std::uint64_t>(row.integer(10)),
        .is_pinned = row.integer(9) != 0};
    return image;
}

Result<Uuid> uuid_of(std::string const& text) {
    if (auto uuid = Uuid::parse(text)) return *std::move(uuid);
    return fail(ErrorKind::corrupt, "the catalog of images has " + text + " where a UUID belongs");
}

std::optional<std::string> text_of(std::optional<Uuid> const& uuid) {
    return uuid ? std::optional(uuid->text()) : std::nullopt;
}

}  // namespace

Result<Catalog> Catalog::open(content::Database& database) {
    TRY(database.migrate("image", migrations));
    return Catalog(database);
}

Result<std::optional<Catalog>> Catalog::open_for_reading(content::Database& database) {
    if (TRY(database.version("image", migrations)) == 0) return std::optional<Catalog>();
    return std::optional(Catalog(database));
}

Result<std::vector<Image>> Catalog::list() {
    auto rows = TRY(database_->query(std::string(image_columns) + "ORDER BY uuid"));
    std::vector<Image> images;
    while (TRY(rows.step()))
        images.push_back(TRY(image_of(rows)));
    return images;
}

Result<Image> Catalog::get(Uuid const& uuid) {
    if (auto image = TRY(find(uuid))) return *std::move(image);
    return fail(ErrorKind::not_found, "image " + uuid.text() + " is not installed");
}

Result<std::optional<Image>> Catalog::find(Uuid const& uuid) {
    auto rows = TRY(database_->query(std::string(image_columns) + "WHERE uuid = ?", uuid.text()));
    if (!TRY(rows.step())) return std::optional<Image>();
    return TRY(image_of(rows));
}

Result<bool> Catalog::has(Uuid const& uuid) {
    auto rows = TRY(database_->query("SELECT 1 FROM image WHERE uuid = ?", uuid.text()));
    return rows.step();
}

Result<std::vector<Layer>> Catalog::layers(Uuid const& uuid) {
    auto rows =
        TRY(database_->query("SELECT blob, chain FROM image_layer WHERE uuid = ? ORDER BY position", uuid.text()));
    std::vector<Layer> layers;
    while (TRY(rows.step()))
        layers.push_back({rows.text(0), rows.text(1)});
    return layers;
}

Result<> Catalog::add(Image const& image, std::span<Layer const> layers) {
    TRY(
        database_->run("INSERT INTO image(uuid, manifest, tree, origin, source, reference, digest, platform, "
                       "installed_at, size, is_pinned) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       image.uuid().text(), image.manifest.text(), image.tree, text_of(image.manifest.origin),
                       image.source, image.reference, image.digest, image.platform, image.installed_at,
                       static_cast<std::int64_t>(image.size), image.is_pinned ? 1 : 0));
    return add_layers(image.uuid(), layers);
}

Result<> Catalog::replace_layers(Image const& image, std::span<Layer const> layers) {
    std::string const uuid = image.uuid().text();
    if (TRY(get(image.uuid())).tree != image.tree)
        return fail(ErrorKind::refused,
                    "image " + uuid + " is installed with other content; it has to be deleted first");
    TRY(database_->run("UPDATE image SET source = ?, reference = ?, digest = ?, size = ? WHERE uuid = ?", image.source,
                       image.reference, image.digest, static_cast<std::int64_t>(image.size), uuid));
    TRY(database_->run("DELETE FROM image_layer WHERE uuid = ?", uuid));
    return add_layers(image.uuid(), layers);
}

Result<> Catalog::add_layers(Uuid const& uuid, std::span<Layer const> layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
        TRY(database_->run("INSERT INTO image_layer(uuid, position, blob, chain) VALUES(?, ?, ?, ?)", uuid.text(),
                           static_cast<std::int64_t>(i), layers[i].blob, layers[i].chain));
    }
    return {};
}

Result<> Catalog::remove(Uuid const& uuid) {
    for (std::string_view const table : {"image_holder", "image_latch", "image_layer", "image"})
        TRY(database_->run("DELETE FROM " + std::string(table) + " WHERE uuid = ?", uuid.text()));
    return {};
}

Result<> Catalog::set_pinned(Uuid const& uuid, bool is_pinned) {
    if (TRY(database_->run("UPDATE image SET is_pinned = ? WHERE uuid = ?", is_pinned ? 1 : 0, uuid.text())) == 1) return {};
    return fail(ErrorKind::not_found, "image " + uuid.text() + " is not installed");
}

Result<std::vector<Uuid>> Catalog::uuids(content::Statement statement) {
    std::vector<Uuid> all;
    while (TRY(statement.step()))
        all.push_back(TRY(uuid_of(statement.text(0))));
    return all;
}

Result<std::vector<Uuid>> Catalog::children(Uuid const& uuid) {
    return uuids(TRY(database_->query("SELECT uuid FROM image WHERE origin = ? ORDER BY uuid", uuid.text())));
}

Result<std::vector<std::string>> Catalog::holders(Uuid const& uuid) {
    auto rows = TRY(database_->query("SELECT holder FROM image_holder WHERE uuid = ? ORDER BY holder", uuid.text()));
    std::vector<std::string> all;
    while (TRY(rows.step()))
        all.push_back(rows.text(0));
    return all;
}

Result<> Catalog::hold(Uuid const& uuid, std::string_view holder) {
    content::Transaction transaction = TRY(database_->begin());
    if (!TRY(has(uuid))) return fail(ErrorKind::not_found, "image " + uuid.text() + " is not installed");
    TRY(database_->run("INSERT OR IGNORE INTO image_holder(uuid, holder) VALUES(?, ?)", uuid.text(), holder));
    return transaction.commit();
}

Result<> Catalog::release_all(std::string_view holder) {
    TRY(database_->run("DELETE FROM image_holder WHERE holder = ?", holder));
    return {};
}

Result<> Catalog::release(Uuid const& uuid, std::string_view holder) {
    TRY(database_->run("DELETE FROM image_holder WHERE uuid = ? AND holder = ?", uuid.text(), holder));
    return {};
}

Result<std::optional<Latch>> Catalog::latch(std::string_view reference) {
    auto rows = TRY(database_->query("SELECT reference, digest, uuid FROM image_latch WHERE reference = ?", reference));
    if (!TRY(rows.step())) return std::optional<Latch>();
    return Latch{rows.text(0), rows.text(1), TRY(uuid_of(rows.text(2)))};
}

Result<std::vector<Latch>> Catalog::latches() {
    auto rows = TRY(database_->query("SELECT reference, digest, uuid FROM image_latch ORDER BY reference"));
    std::vector<Latch> all;
    while (TRY(rows.step()))
        all.push_back({rows.text(0), rows.text(1), TRY(uuid_of(rows.text(2)))});
    return all;
}

Result<> Catalog::set_latch(Latch const& latch) {
    TRY(
        database_->run("INSERT INTO image_latch(reference, digest, uuid) VALUES(?, ?, ?) "
                       "ON CONFLICT(reference) DO UPDATE SET digest = excluded.digest, uuid = excluded.uuid",
                       latch.reference, latch.digest, latch.image.text()));
    return {};
}

Result<> Catalog::remove_latch(std::string_view reference) {
    TRY(database_->run("DELETE FROM image_latch WHERE reference = ?", reference));
    return {};
}

Result<std::vector<Uuid>> Catalog::images_with(std::string_view digest) {
    return uuids(
        TRY(database_->query("SELECT DISTINCT uuid FROM image_layer WHERE blob = ? OR chain = ? "
                             "UNION SELECT uuid FROM image WHERE digest = ? ORDER BY uuid",
                             digest, digest, digest)));
}

Result<IntentId> Catalog::begin_intent(std::string_view owner, std::string_view purpose,
                                       std::optional<Uuid> const& image, std::span<std::string const> chains,
                                       std::optional<std::string> const& snapshot_of) {
    content::Transaction transaction = TRY(database_->begin());
    auto rows =
        TRY(database_->query("INSERT INTO image_intent(owner, purpose, uuid, tree) VALUES(?, ?, ?, ?) RETURNING id",
                             owner, purpose, text_of(image), snapshot_of));
    if (!TRY(rows.step())) return fail(ErrorKind::internal, "an intent got no number");
    IntentId const id{rows.integer(0)};
    while (TRY(rows.step())) {
    }
    for (std::string const& chain : chains)
        TRY(add_to_intent(id, chain));
    TRY(transaction.commit());
    return id;
}

Result<> Catalog::add_to_intent(IntentId id, std::string_view chain) {
    TRY(database_->run("INSERT OR IGNORE INTO image_intent_chain(intent, chain) VALUES(?, ?)", std::to_underlying(id),
                       chain));
    return {};
}

Result<> Catalog::end_intent(IntentId id) {
    content::Transaction transaction = TRY(database_->begin());
    TRY(database_->run("DELETE FROM image_intent_chain WHERE intent = ?", std::to_underlying(id)));
    TRY(database_->run("DELETE FROM image_intent WHERE id = ?", std::to_underlying(id)));
    return transaction.commit();
}

Result<std::vector<Intent>> Catalog::intents() {
    auto rows = TRY(database_->query("SELECT id, owner, purpose, uuid, tree FROM image_intent ORDER BY id"));
    std::vector<Intent> all;
    while (TRY(rows.step())) {
        Intent intent{.id = IntentId{rows.integer(0)},
                      .owner = rows.text(1),
                      .purpose = rows.text(2),
                      .image = {},
                      .chains = {},
                      .snapshot_of = {}};
        if (!rows.is_null(3)) intent.image = TRY(uuid_of(rows.text(3)));
        if (!rows.is_null(4)) intent.snapshot_of = rows.text(4);
        all.push_back(std::move(intent));
    }
    for (Intent& intent : all) {
        auto chains = TRY(database_->query("SELECT chain FROM image_intent_chain WHERE intent = ? ORDER BY chain",
                                           std::to_underlying(intent.id)));
        while (TRY(chains.step()))
            intent.chains.push_back(chains.text(0));
    }
    return all;
}

Result<bool> Catalog::has_intent(IntentId id) {
    auto rows = TRY(database_->query("SELECT 1 FROM image_intent WHERE id = ?", std::to_underlying(id)));
    return rows.step();
}

Result<bool> Catalog::is_needed(std::string_view chain, IntentId but) {
    auto rows =
        TRY(database_->query("SELECT 1 FROM image_layer WHERE chain = ? UNION ALL "
                             "SELECT 1 FROM image_intent_chain WHERE chain = ? AND intent <> ? LIMIT 1",
                             chain, chain, std::to_underlying(but)));
    return rows.step();
}

Result<bool> Catalog::leave_to_others(std::string_view chain, IntentId id) {
    content::Transaction transaction = TRY(database_->begin());
    if (!TRY(is_needed(chain, id))) return false;
    TRY(database_->run("DELETE FROM image_intent_chain WHERE intent = ? AND chain = ?", std::to_underlying(id), chain));
    TRY(transaction.commit());
    return true;
}

}  // namespace triton::image
