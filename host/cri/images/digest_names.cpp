#include "host/cri/images/digest_names.h"

#include <array>

namespace triton::cri {

namespace {

constexpr std::array<content::Migration, 2> digest_name_migrations{{
    {"CREATE TABLE cri_digest_name(name TEXT PRIMARY KEY, uuid TEXT NOT NULL) WITHOUT ROWID;"},
    {"CREATE TABLE cri_hidden_name(name TEXT NOT NULL, uuid TEXT NOT NULL, PRIMARY KEY(name, uuid)) WITHOUT ROWID;"
     "CREATE TABLE cri_unwanted_image(uuid TEXT PRIMARY KEY) WITHOUT ROWID;"},
}};

}  // namespace

Result<DigestNames> DigestNames::open(content::Database& database) {
    TRY(database.migrate("cri", digest_name_migrations));
    return DigestNames(database);
}

Result<std::optional<DigestNames>> DigestNames::open_for_reading(content::Database& database) {
    std::size_t const version = TRY(database.version("cri", digest_name_migrations));
    if (version < digest_name_migrations.size()) return std::optional<DigestNames>();
    return std::optional(DigestNames(database));
}

Result<std::vector<DigestName>> DigestNames::names(std::string_view table) {
    auto rows = TRY(database_->query("SELECT name, uuid FROM " + std::string(table) + " ORDER BY name, uuid"));
    std::vector<DigestName> all;
    while (TRY(rows.step()))
        if (auto const uuid = Uuid::parse(rows.text(1))) all.push_back({rows.text(0), *uuid});
    return all;
}

Result<std::vector<DigestName>> DigestNames::list() { return names("cri_digest_name"); }

Result<std::vector<DigestName>> DigestNames::hidden() { return names("cri_hidden_name"); }

Result<std::vector<Uuid>> DigestNames::unwanted() {
    auto rows = TRY(database_->query("SELECT uuid FROM cri_unwanted_image ORDER BY uuid"));
    std::vector<Uuid> all;
    while (TRY(rows.step()))
        if (auto const uuid = Uuid::parse(rows.text(0))) all.push_back(*uuid);
    return all;
}

Result<> DigestNames::add(DigestName const& name) {
    content::Transaction transaction = TRY(database_->begin());
    TRY(
        database_->run("INSERT INTO cri_digest_name(name, uuid) VALUES(?, ?) "
                       "ON CONFLICT(name) DO UPDATE SET uuid = excluded.uuid",
                       name.name, name.image.text()));
    TRY(database_->run("DELETE FROM cri_hidden_name WHERE name = ? AND uuid = ?", name.name, name.image.text()));
    TRY(database_->run("DELETE FROM cri_unwanted_image WHERE uuid = ?", name.image.text()));
    return transaction.commit();
}

Result<> DigestNames::remove(DigestName const& name) {
    TRY(database_->run("DELETE FROM cri_digest_name WHERE name = ? AND uuid = ?", name.name, name.image.text()));
    TRY(database_->run("INSERT OR IGNORE INTO cri_hidden_name(name, uuid) VALUES(?, ?)", name.name, name.image.text()));
    return {};
}

Result<> DigestNames::set_unwanted(Uuid const& image) {
    TRY(database_->run("INSERT OR IGNORE INTO cri_unwanted_image(uuid) VALUES(?)", image.text()));
    return {};
}

Result<> DigestNames::remove_stale() {
    for (std::string_view const table : {"cri_digest_name", "cri_hidden_name", "cri_unwanted_image"})
        TRY(database_->run("DELETE FROM " + std::string(table) + " WHERE uuid NOT IN (SELECT uuid FROM image)"));
    return {};
}

}  // namespace triton::cri
