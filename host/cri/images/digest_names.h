#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/content/database.h"
#include "host/cri/images/records.h"
#include "lib/base/result.h"

namespace triton::cri {

/// The names by digest that images were pulled by, in a table of the content store's database: imgadm keeps only the
/// first one of an image.
class DigestNames {
public:
    /// Brings the table up to date. `database` must outlive this.
    static Result<DigestNames> open(content::Database& database);
    /// For list(). None: there is no table yet.
    static Result<std::optional<DigestNames>> open_for_reading(content::Database& database);

    /// Also those of images that have been deleted.
    Result<std::vector<DigestName>> list();
    Result<> add(DigestName const& name);
    /// Removes those of images that are not in the catalog any more.
    Result<> remove_stale();

private:
    explicit DigestNames(content::Database& database) : database_(&database) {}
    content::Database* database_;
};

}  // namespace triton::cri
