#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/content/database.h"
#include "host/cri/images/records.h"
#include "lib/base/result.h"

namespace triton::cri {

/// What CRI knows of the names of images beyond imgadm's tags, in tables of the content store's database: the names by
/// digest that images were pulled by, of which imgadm keeps only the first one; those of imgadm that a client has
/// removed; and the images that a client has removed while containers held them.
class DigestNames {
public:
    /// Brings the tables up to date. `database` must outlive this.
    static Result<DigestNames> open(content::Database& database);
    /// For list(), hidden() and unwanted(). None: there are no tables of this version yet.
    static Result<std::optional<DigestNames>> open_for_reading(content::Database& database);

    /// Also those of images that have been deleted.
    Result<std::vector<DigestName>> list();
    /// The names by digest of imgadm's rows that a client has removed.
    Result<std::vector<DigestName>> hidden();
    /// The images that go when the last container that holds them has gone.
    Result<std::vector<Uuid>> unwanted();

    /// Adds a name, also one that was removed. Its image is wanted again.
    Result<> add(DigestName const& name);
    Result<> remove(DigestName const& name);
    Result<> set_unwanted(Uuid const& image);
    /// Removes what is about images that are not in the catalog any more.
    Result<> remove_stale();

private:
    explicit DigestNames(content::Database& database) : database_(&database) {}
    Result<std::vector<DigestName>> names(std::string_view table);
    content::Database* database_;
};

}  // namespace triton::cri
