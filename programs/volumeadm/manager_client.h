#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/volume/keep/documents.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"
#include "lib/varlink/connection.h"
#include "programs/volumeadm/command_line.h"

namespace triton::program {

inline constexpr std::string_view own_publisher = "admin";

/// What volumemgr says of one object.
struct Told {
    std::string kind;
    std::string key;
    std::optional<json::Object> object;  ///< none: it has gone
    bool is_complete = false;            ///< instead of all that: everything that there is has been told
};

/// volumemgr, for one command.
class ManagerClient {
public:
    /// Errors: `unavailable`: "volumemgr does not answer at PATH", with what to do.
    static Result<ManagerClient> connect(Options const& options);

    Result<json::Object> call(std::string_view method, std::string const& parameters);
    Result<> put(std::vector<volume::Config> const& configs);
    Result<> remove(std::string_view kind, std::string const& key);
    /// Calls `told` for each object of that kind (empty: all) and, if it follows, for each change, until it returns
    /// false. Errors: `timeout` at the deadline; those of `told`.
    Result<> watch(std::string_view kind, std::string_view key, bool follows, std::optional<TimePoint> deadline,
                   std::function<Result<bool>(Told const&)> const& told);

private:
    explicit ManagerClient(varlink::Connection connection) : connection_(std::move(connection)) {}
    Result<json::Object> read(std::optional<TimePoint> deadline);
    varlink::Connection connection_;
};

/// The statuses of one kind, by key: from volumemgr if it runs, else from the database as it is.
using Statuses = std::map<std::string, json::Object>;
Result<Statuses> read_statuses(Options const& options, std::string_view kind);
/// Why an object is as it is, likewise.
Result<std::vector<std::string>> read_why(Options const& options, std::string_view kind, std::string const& key);

/// The key of the volume that a word means. Errors: `not_found`; `invalid` when it means several.
Result<std::string> find_volume(Statuses const& statuses, std::string_view word);

}  // namespace triton::program
