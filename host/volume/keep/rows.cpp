#include "host/volume/keep/rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "host/volume/keep/uses.h"

namespace triton::volume {

namespace {

constexpr std::array<content::Migration, 3> migrations{{
    {R"(
CREATE TABLE volume_object (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    publisher TEXT NOT NULL,
    config TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE volume_made (
    key TEXT PRIMARY KEY NOT NULL,
    stage INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    vault INTEGER NOT NULL,
    content TEXT NOT NULL,
    format TEXT NOT NULL,
    unclaimed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE volume_content (
    id TEXT PRIMARY KEY NOT NULL,
    digest TEXT NOT NULL,
    image TEXT NOT NULL,
    loaded INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE volume_fact (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO volume_fact VALUES ('epoch', lower(hex(randomblob(8))));
)"},
    {R"(
ALTER TABLE volume_content ADD COLUMN demand TEXT NOT NULL DEFAULT '';
ALTER TABLE volume_content ADD COLUMN signed_by TEXT NOT NULL DEFAULT '';
)"},
    // volumes: their keys, each with a space before and after it.
    {R"(
CREATE TABLE volume_snapshot (
    id TEXT PRIMARY KEY NOT NULL,
    stage INTEGER NOT NULL,
    volumes TEXT NOT NULL,
    rollbacks INTEGER NOT NULL,
    taken INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
)"},
}};

std::unexpected<Error> broken(std::string const& what) {
    return fail(ErrorKind::corrupt, "the rows of volumes have " + what);
}

Result<VolumeRow> volume_of(content::Statement const& row) {
    auto const key = VolumeKey::parse(row.text(0));
    auto const format = parse_format(row.text(5));
    if (!key || !format || row.integer(1) < 0 || row.integer(1) > static_cast<int>(VolumeRow::Stage::deleting))
        return broken("a volume " + row.text(0) + " of stage " + row.text(1) + " and format " + row.text(5));
    return VolumeRow{.key = *key,
                     .stage = static_cast<VolumeRow::Stage>(row.integer(1)),
                     .bytes = static_cast<std::uint64_t>(row.integer(2)),
                     .is_in_vault = row.integer(3) != 0,
                     .content = row.text(4),
                     .format = *format,
                     .unclaimed_seconds = row.integer(6)};
}

std::string text_of(std::vector<VolumeKey> const& volumes) {
    std::string text = " ";
    for (VolumeKey const& volume : volumes)
        text += volume.text() + " ";
    return text;
}

Result<SnapshotRow> snapshot_of(content::Statement const& row) {
    auto const key = SnapshotKey::parse(row.text(0));
    if (!key || row.integer(1) < 0 || row.integer(1) > static_cast<int>(SnapshotRow::Stage::deleting))
        return broken("a snapshot " + row.text(0) + " of stage " + row.text(1));
    SnapshotRow snapshot{.key = *key,
                         .stage = static_cast<SnapshotRow::Stage>(row.integer(1)),
                         .rollbacks = static_cast<std::uint64_t>(row.integer(3)),
                         .taken = row.integer(4)};
    std::string const volumes = row.text(2);
    for (std::size_t begin = 1; begin < volumes.size();) {
        std::size_t const end = std::min(volumes.find(' ', begin), volumes.size());
        auto const volume = VolumeKey::parse(volumes.substr(begin, end - begin));
        if (!volume) return broken("a snapshot " + row.text(0) + " of volumes" + volumes);
        snapshot.volumes.push_back(*volume);
        begin = end + 1;
    }
    return snapshot;
}

Result<Config> config_of(content::Statement const& row) {
    json::ProblemList problems(1);
    auto const node = json::read_json(row.text(2), {}, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    if (!object) return broken("an object " + row.text(0) + " that is no JSON");
    return read_config(row.text(0), *object, row.text(1));
}

/// Makes one change within a transaction.
struct Apply {
    content::Database& database;

    Result<> operator()(Config const& config) const {
        if (auto const* const reference = std::get_if<ReferenceConfig>(&config))
            TRY(check_not_rolling_back(database, reference->key.volume));
        return run(
            "INSERT INTO volume_object VALUES (?, ?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET "
            "publisher = excluded.publisher, config = excluded.config",
            kind_of(config), key_of(config), publisher_of(config), config_text(config));
    }
    Result<> operator()(EraseConfig const& one) const {
        if (auto const key = one.kind == "VolumeConfig" ? VolumeKey::parse(one.key) : std::nullopt)
            TRY(check_unused(*key));
        return run("DELETE FROM volume_object WHERE kind = ? AND key = ?", one.kind, one.key);
    }
    Result<> operator()(VolumeRow const& row) const {
        if (row.stage == VolumeRow::Stage::deleting) TRY(check_unused(row.key));
        return run("INSERT OR REPLACE INTO volume_made VALUES (?, ?, ?, ?, ?, ?, ?)", row.key.text(),
                   static_cast<int>(row.stage), row.bytes, row.is_in_vault, row.content, name_of(row.format),
                   row.unclaimed_seconds);
    }
    Result<> operator()(TreeRow const& row) const {
        return run("INSERT OR REPLACE INTO volume_content VALUES (?, ?, ?, ?, ?, ?, ?)", row.id, row.digest, row.image,
                   row.is_loaded, row.bytes, row.demand, row.signed_by);
    }
    Result<> operator()(SnapshotRow const& row) const {
        // From here on nobody can begin to use its volumes: see check_not_rolling_back().
        if (row.stage == SnapshotRow::Stage::rolling_back)
            for (VolumeKey const& volume : row.volumes)
                for (ReferenceConfig const& one : TRY(references_to(database, volume)))
                    return fail(ErrorKind::refused, "volume " + volume.text() + " is used by " + shown_user(one) +
                                                        "; it is rolled back when nobody uses it");
        return run("INSERT OR REPLACE INTO volume_snapshot VALUES (?, ?, ?, ?, ?)", row.key.text(),
                   static_cast<int>(row.stage), text_of(row.volumes), row.rollbacks, row.taken);
    }
    Result<> operator()(Save::EraseSnapshot const& one) const {
        return run("DELETE FROM volume_snapshot WHERE id = ?", one.key.text());
    }
    Result<> operator()(Save::EraseVolume const& one) const {
        TRY(run("DELETE FROM promises WHERE key = ?", "volume " + one.key.text()));
        return run("DELETE FROM volume_made WHERE key = ?", one.key.text());
    }
    Result<> operator()(Save::EraseTree const& one) const {
        return run("DELETE FROM volume_content WHERE id = ?", one.id);
    }
    Result<> operator()(SetPromise const& one) const {
        std::string const key = "volume " + one.key.text();
        if (one.bytes == 0) return run("DELETE FROM promises WHERE key = ?", key);
        return run(
            "INSERT INTO promises VALUES (?, ?, ?, 0) ON CONFLICT (key) DO UPDATE SET device = excluded.device, "
            "bytes = excluded.bytes",
            key, one.device, one.bytes);
    }
    Result<> operator()(SetWritten const& one) const {
        return run("UPDATE promises SET device = ?, written = ? WHERE key = ?", one.device, one.written,
                   "volume " + one.key.text());
    }

private:
    /// Machines hold volumes without volumemgr, which may not have noticed yet.
    [[nodiscard]] Result<> check_unused(VolumeKey const& key) const {
        for (ReferenceConfig const& one : TRY(references_to(database, key)))
            if (one.publisher == machine_publisher)
                return fail(ErrorKind::refused, "volume " + key.text() + " is used by " + shown_user(one));
        return {};
    }

    template <class... Values>
    Result<> run(std::string_view sql, Values const&... values) const {
        TRY(database.run(sql, values...));
        return {};
    }
};

}  // namespace

Result<> check_not_rolling_back(content::Database& database, VolumeKey const& key) {
    content::Statement rows =
        TRY(database.query("SELECT id FROM volume_snapshot WHERE stage = ? AND instr(volumes, ?) > 0",
                           static_cast<int>(SnapshotRow::Stage::rolling_back), " " + key.text() + " "));
    if (!TRY(rows.step())) return {};
    return fail(ErrorKind::refused, "volume " + key.text() + " is being rolled back to snapshot " + rows.text(0));
}

Result<Rows> Rows::open(content::Database& database) {
    TRY(database.migrate("volume", migrations));
    return Rows(database, migrations.size());
}

Result<std::optional<Rows>> Rows::open_for_reading(content::Database& database) {
    std::size_t const version = TRY(database.version("volume", migrations));
    if (version == 0) return std::nullopt;
    return Rows(database, version);
}

Result<AllRows> Rows::load() {
    AllRows all;
    content::Statement volumes =
        TRY(database_->query("SELECT key, stage, bytes, vault, content, format, unclaimed FROM volume_made"));
    while (TRY(volumes.step()))
        all.volumes.push_back(TRY(volume_of(volumes)));
    std::string const signature = version_ >= 2 ? "demand, signed_by" : "'', ''";
    content::Statement trees =
        TRY(database_->query("SELECT id, digest, loaded, bytes, image, " + signature + " FROM volume_content"));
    while (TRY(trees.step()))
        all.trees.push_back({.id = trees.text(0),
                             .digest = trees.text(1),
                             .image = trees.text(4),
                             .is_loaded = trees.integer(2) != 0,
                             .bytes = static_cast<std::uint64_t>(trees.integer(3)),
                             .demand = trees.text(5),
                             .signed_by = trees.text(6)});
    content::Statement blobs =
        TRY(database_->query("SELECT r.owner_id, b.digest, b.size, b.media_type FROM blob_references r JOIN blobs b ON "
                             "b.digest = r.digest WHERE r.owner_kind = 'contentTree' AND b.quarantined = ''"));
    while (TRY(blobs.step())) {
        auto const bytes = static_cast<std::uint64_t>(blobs.integer(2));
        all.blobs[blobs.text(0)].push_back({.digest = blobs.text(1),
                                            .media_type = blobs.text(3),
                                            .state = State::loaded,
                                            .bytes = bytes,
                                            .total_bytes = bytes});
    }
    if (version_ >= 3) {
        content::Statement snapshots =
            TRY(database_->query("SELECT id, stage, volumes, rollbacks, taken FROM volume_snapshot"));
        while (TRY(snapshots.step()))
            all.snapshots.push_back(TRY(snapshot_of(snapshots)));
    }
    content::Statement objects = TRY(database_->query("SELECT kind, publisher, config FROM volume_object"));
    while (TRY(objects.step()))
        all.configs.push_back(TRY(config_of(objects)));
    return all;
}

Result<std::string> Rows::epoch() {
    content::Statement row = TRY(database_->query("SELECT value FROM volume_fact WHERE name = 'epoch'"));
    if (!TRY(row.step())) return broken("no name");
    return row.text(0);
}

Result<> Rows::apply(std::span<Change const> changes) {
    content::Transaction transaction = TRY(database_->begin());
    for (Change const& change : changes)
        TRY(std::visit(Apply{*database_}, change));
    return transaction.commit();
}

}  // namespace triton::volume
