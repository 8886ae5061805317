#include "host/volume/keep/uses.h"

#include <algorithm>
#include <set>

#include "host/volume/keep/documents.h"
#include "host/volume/keep/rows.h"
#include "lib/json/text.h"

namespace triton::volume {

namespace {

constexpr std::string_view volume_kind = "VolumeConfig";
constexpr std::string_view tree_kind = "ContentTreeConfig";
constexpr std::string_view reference_kind = "VolumeRefConfig";

Result<Config> read_row(std::string_view kind, std::string const& text, std::string const& publisher) {
    json::ProblemList problems(1);
    auto const node = json::read_json(text, {}, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    if (!object) return fail(ErrorKind::corrupt, "the rows of volumes have an object that is no JSON");
    return read_config(kind, *object, publisher);
}

Result<std::optional<Config>> find_config(content::Database& database, std::string_view kind, std::string const& key) {
    content::Statement row =
        TRY(database.query("SELECT config, publisher FROM volume_object WHERE kind = ? AND key = ?", kind, key));
    if (!TRY(row.step())) return std::nullopt;
    return TRY(read_row(kind, row.text(0), row.text(1)));
}

Result<std::vector<ReferenceConfig>> read_references(content::Statement rows) {
    std::vector<ReferenceConfig> all;
    while (TRY(rows.step()))
        all.push_back(std::get<ReferenceConfig>(TRY(read_row(reference_kind, rows.text(0), rows.text(1)))));
    return all;
}

Result<std::optional<VolumeRow>> find_row(content::Database& database, VolumeKey const& key) {
    content::Statement row =
        TRY(database.query("SELECT stage, vault, content, format, bytes FROM volume_made WHERE key = ?", key.text()));
    if (!TRY(row.step())) return std::nullopt;
    auto const format = parse_format(row.text(3));
    bool const is_stage = row.integer(0) >= 0 && row.integer(0) <= static_cast<int>(VolumeRow::Stage::deleting);
    if (!format || !is_stage)
        return fail(ErrorKind::corrupt, "the rows of volumes have a volume " + key.text() + " of an unknown kind");
    return VolumeRow{.key = key,
                     .stage = static_cast<VolumeRow::Stage>(row.integer(0)),
                     .bytes = static_cast<std::uint64_t>(row.integer(4)),
                     .is_in_vault = row.integer(1) != 0,
                     .content = row.text(2),
                     .format = *format};
}

/// Whether a volume that does not exist yet will be a file.
Result<bool> will_be_file(content::Database& database, VolumeConfig const& config) {
    if (config.layout) return *config.layout == Layout::file;
    switch (config.origin) {
        case Origin::blank: return false;
        case Origin::cloud_init: return true;
        case Origin::received: return config.format && layout_of(*config.format) == Layout::file;
        case Origin::download: {
            auto const tree = TRY(find_config(database, tree_kind, config.content));
            return tree && layout_of(std::get<TreeConfig>(*tree).format) == Layout::file;
        }
        case Origin::clone: {
            auto const source = config.source ? TRY(find_row(database, *config.source)) : std::nullopt;
            return source && layout_of(source->format) == Layout::file;
        }
    }
    std::unreachable();
}

}  // namespace

Result<std::vector<ReferenceConfig>> references_to(content::Database& database, VolumeKey const& key) {
    // '$' is the character after '#', which separates key and user.
    return read_references(
        TRY(database.query("SELECT config, publisher FROM volume_object WHERE kind = ? AND key > ? AND key < ?",
                           reference_kind, key.text() + "#", key.text() + "$")));
}

Result<std::vector<ReferenceConfig>> references_of(content::Database& database, std::string_view publisher) {
    return read_references( TRY(database.query(
        "SELECT config, publisher FROM volume_object WHERE kind = ? AND publisher = ?", reference_kind, publisher)));
}

Result<Uses> Uses::open(content::Database& database) {
    TRY(Rows::open(database));
    return Uses(database);
}

Result<std::optional<Uses>> Uses::open_for_reading(content::Database& database) {
    if (!TRY(Rows::open_for_reading(database))) return std::nullopt;
    return Uses(database);
}

Result<std::optional<VolumeKey>> Uses::highest_generation(Uuid const& id) {
    std::optional<VolumeKey> highest;
    for (char const* const sql : {"SELECT key FROM volume_object WHERE kind = 'VolumeConfig' AND key > ? AND key < ?",
                                  "SELECT key FROM volume_made WHERE key > ? AND key < ?"}) {
        content::Statement rows = TRY(database_->query(sql, id.text() + "#", id.text() + "$"));
        while (TRY(rows.step())) {
            auto const key = VolumeKey::parse(rows.text(0));
            if (key && (!highest || *highest < *key)) highest = key;
        }
    }
    return highest;
}

Result<VolumeKey> Uses::find(std::string_view word) {
    if (auto const key = VolumeKey::parse(word); key && TRY(look_at(*key))) return *key;
    if (auto const id = Uuid::parse(word)) {
        if (auto const key = TRY(highest_generation(*id))) return *key;
    }
    content::Statement rows = TRY(
        database_->query("SELECT key FROM volume_object WHERE kind = ? AND json_extract(config, '$.DisplayName') = ?",
                         volume_kind, word));
    std::optional<VolumeKey> found;
    while (!word.empty() && TRY(rows.step())) {
        auto const key = VolumeKey::parse(rows.text(0));
        if (!key) continue;
        if (found && found->id != key->id)
            return fail(ErrorKind::refused, "several volumes are called " + json::shown(word) + ": " + found->text() +
                                                " and " + key->text());
        if (!found || *found < *key) found = key;
    }
    if (found) return *found;
    return fail(ErrorKind::not_found, "there is no volume " + json::shown(word) + "; volumeadm list shows all");
}

Result<std::optional<KnownVolume>> Uses::look_at(VolumeKey const& key) {
    KnownVolume known{.key = key};
    known.row = TRY(find_row(*database_, key));
    auto const config = TRY(find_config(*database_, volume_kind, key.text()));
    if (!config && !known.row) return std::nullopt;
    if (known.row) {
        known.is_file = layout_of(known.row->format) == Layout::file;
        known.is_in_vault = known.row->is_in_vault;
    }
    if (config) {
        auto const& volume = std::get<VolumeConfig>(*config);
        known.is_configured = true;
        known.name = volume.display_name;
        known.is_read_only = volume.is_read_only;
        if (!known.row) {
            known.is_file = TRY(will_be_file(*database_, volume));
            known.is_in_vault = volume.is_encrypted;
        }
    }
    return known;
}

Result<std::vector<std::string>> Uses::users() {
    std::set<std::string> users;
    for (ReferenceConfig const& one : TRY(references_of(*database_, machine_publisher)))
        users.insert(one.key.user);
    return std::vector<std::string>(users.begin(), users.end());
}

Result<std::vector<Use>> Uses::uses_of(std::string_view user) {
    std::vector<Use> uses;
    for (ReferenceConfig const& one : TRY(references_of(*database_, machine_publisher)))
        if (one.key.user == user) uses.push_back({one.key.volume, one.is_read_only});
    return uses;
}

Result<> Uses::check(Use const& use, std::string const& user, Rules const& rules) {
    std::string const what = "volume " + use.volume.text();
    auto const volume = TRY(look_at(use.volume));
    if (!volume) return fail(ErrorKind::not_found, what + " does not exist; volumeadm list shows all");
    if (volume->row && volume->row->stage == VolumeRow::Stage::deleting && !volume->is_configured)
        return fail(ErrorKind::refused, what + " is being deleted");
    TRY(check_not_rolling_back(*database_, use.volume));
    if (volume->is_read_only && !use.is_read_only)
        return fail(ErrorKind::refused, what + R"( is read-only: it needs "options": ["ro"])");
    for (ReferenceConfig const& other : TRY(references_to(*database_, use.volume))) {
        if (other.key.user == user && other.publisher == machine_publisher) continue;
        bool const is_shared = volume->is_read_only || (use.is_read_only && other.is_read_only);
        if (volume->is_file && !is_shared)
            return fail(ErrorKind::refused,
                        what + " is a file, which " + shown_user(other) +
                            R"( uses: several users need it read-only, each with "options": ["ro"])");
        if (rules.maps_owners && !TRY(rules.maps_owners(*volume)))
            return fail(ErrorKind::refused, what + " belongs to the uids of " + shown_user(other) +
                                                ": the file system of the " + (volume->is_in_vault ? "vault" : "pool") +
                                                " cannot map owners (idmapped mounts)");
    }
    return {};
}

Result<bool> Uses::hold(std::string const& user, Wanted const& wanted, Rules const& rules) {
    content::Transaction transaction = TRY(database_->begin());
    std::vector<Use> const uses = TRY(wanted());
    std::vector<Use> const before = TRY(uses_of(user));
    bool has_changed = false;
    for (Use const& use : uses) {
        if (std::ranges::find(before, use) != before.end()) continue;
        TRY(check(use, user, rules));
        ReferenceConfig const reference{
            .key = {use.volume, user}, .publisher = std::string(machine_publisher), .is_read_only = use.is_read_only};
        TRY(database_->run("INSERT OR REPLACE INTO volume_object VALUES (?, ?, ?, ?)", reference_kind,
                           reference.key.text(), machine_publisher, config_text(reference)));
        has_changed = true;
    }
    for (Use const& use : before) {
        if (rules.keeps_others || std::ranges::find(uses, use.volume, &Use::volume) != uses.end()) continue;
        TRY(database_->run("DELETE FROM volume_object WHERE kind = ? AND key = ? AND publisher = ?", reference_kind,
                           ReferenceKey{use.volume, user}.text(), machine_publisher));
        has_changed = true;
    }
    if (has_changed) TRY(transaction.commit());
    return has_changed;
}

}  // namespace triton::volume
