#include "host/cri/images/digest_names.h"

#include <array>

namespace triton::cri {

namespace {

constexpr std::array<content::Migration, 1> digest_name_migrations{{
    {"CREATE TABLE cri_digest_name(name TEXT PRIMARY KEY, uuid TEXT NOT NULL) WITHOUT ROWID;"},
}};

}  // namespace

Result<DigestNames> DigestNames::open(content::Database& database) {
    TRY(database.migrate("cri", digest_name_migrations));
    return DigestNames(database);
}

Result<std::optional<DigestNames>> DigestNames::open_for_reading(content::Database& database) {
    if (TRY(database.version("cri", digest_name_migrations)) == 0) return std::optional<DigestNames>();
    return std::optional(DigestNames(database));
}

Result<std::vector<DigestName>> DigestNames::list() {
    auto rows = TRY(database_->query("SELECT name, uuid FROM cri_digest_name ORDER BY name"));
    std::vector<DigestName> names;
    while (TRY(rows.step()))
        if (auto const uuid = Uuid::parse(rows.text(1))) names.push_back({rows.text(0), *uuid});
    return names;
}

Result<> DigestNames::add(DigestName const& name) {
    TRY(
        database_->run("INSERT INTO cri_digest_name(name, uuid) VALUES(?, ?) "
                       "ON CONFLICT(name) DO UPDATE SET uuid = excluded.uuid",
                       name.name, name.image.text()));
    return {};
}

Result<> DigestNames::remove_stale() {
    TRY(database_->run("DELETE FROM cri_digest_name WHERE uuid NOT IN (SELECT uuid FROM image)"));
    return {};
}

}  // namespace triton::cri
