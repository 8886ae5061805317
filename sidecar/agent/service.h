#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/files/confined_directory.h"
#include "lib/net/http_server.h"
#include "lib/net/loop.h"
#include "lib/net/turns.h"
#include "sidecar/agent/hash_cache.h"
#include "sidecar/agent/hash_pool.h"
#include "sidecar/agent/metrics.h"
#include "sidecar/agent/routing.h"
#include "sidecar/agent/status.h"
#include "sidecar/control/control_client.h"

namespace triton::agent {

using net::HttpRequest;
using net::HttpResponse;

/// The HTTP status of a failure, by its kind.
unsigned status_of(Error const& error);

struct ServiceSettings {
    std::string version;             ///< of the agent
    std::string substitutions_json;  ///< for /substitutions
    std::size_t hash_threads = 2;
    std::size_t cached_hashes = 4096;
    std::size_t most_hashes = 256;  ///< being computed or waiting, some with a descriptor
    std::size_t most_paths = 1000;  ///< in one request
    std::size_t most_hashes_of_peer = 64;
    std::size_t most_looks = 256;  ///< questions to the file system, each of some 5 us as a rule
};

/// The endpoints, without HTTP. One I/O thread; hashes are computed by others.
class Service {
public:
    struct Surroundings {
        net::Loop& loop;
        files::ConfinedDirectory const* output;  ///< null: there is none, hence no files
        sidecar::control::ControlClient& control;
        AgentFigures& figures;
        std::function<Result<bool>()> reload_certificates;  ///< empty: no TLS
        std::function<void()> restart;                      ///< ends the agent, to be started again
    };

    Service(ServiceSettings settings, Surroundings around);
    ~Service();
    Service(Service const&) = delete;
    Service& operator=(Service const&) = delete;

    void set_substitutions(std::string json) { settings_.substitutions_json = std::move(json); }

    /// Open to everybody.
    net::Task<HttpResponse> answer(HttpRequest const& request);

private:
    struct Snapshot {
        SupervisionStatus status;
        std::string launcher_json;
        std::string programs_json;
    };
    using SharedSnapshot = std::shared_ptr<Snapshot const>;
    struct PendingHash;
    struct Wish;
    struct KeyHasher {
        std::size_t operator()(FileKey const& key) const noexcept { return key.inode * 31 + key.device; }
    };
    struct HashedFile {
        std::string sha256;
        std::uint64_t bytes = 0;
    };

    net::Task<Result<std::vector<json::Node>>> ask(std::string method, std::string parameters, bool more,
                                                   Duration limit);
    /// With `history`, the programs have their ends and the results of checks, which few ask for.
    net::Task<Result<SharedSnapshot>> snapshot(bool history = false);
    net::Task<Result<SharedSnapshot>> fetch_snapshot(bool history);
    net::Task<HttpResponse> readyz();
    net::Task<HttpResponse> metrics(std::string_view accept);
    net::Task<HttpResponse> status();
    net::Task<HttpResponse> check_hash(HttpRequest const& request);
    net::Task<HttpResponse> hashes(HttpRequest const& request);
    net::Task<Result<StagingReply>> stage(std::string_view what, HttpRequest const& request);
    net::Task<HttpResponse> copy(std::string_view what, HttpRequest const& request);
    net::Task<HttpResponse> stage_in_detail(HttpRequest const& request);
    net::Task<HttpResponse> is_present(std::string path);
    HttpResponse refresh_certificates();
    HttpResponse restart(HttpRequest const& request) const;

    /// Asks a file system in another thread: it may hang, and we must not.
    template <class T>
    net::Task<Result<T>> look(std::function<T()> ask);
    using Looked = Result<struct stat>;
    net::Task<std::deque<Looked>> look_at_files(std::vector<std::string> paths);
    net::Task<Looked> look_at_file(std::string path);

    /// Known at once, or to be waited for, or an error.
    using Begun = std::expected<HashedFile, Result<std::shared_ptr<Wish>>>;
    Begun begin_hash(std::string const& path, Looked const& looked, HttpRequest const& request);
    net::Task<Result<HashedFile>> finish_hash(std::shared_ptr<Wish> wish, HttpRequest const& request);
    net::Task<Result<HashedFile>> hash(std::string path, Begun begun, HttpRequest const& request);
    void hash_done(FileKey const& key, std::shared_ptr<PendingHash> const& pending, Result<FileHash> result);

    ServiceSettings settings_;
    Surroundings around_;
    HashCache cache_;
    std::unordered_map<FileKey, std::shared_ptr<PendingHash>, KeyHasher> pending_;
    struct Answered {
        std::shared_ptr<net::Condition> fetching;  // somebody asks the launcher; others wait for his answer
        Result<SharedSnapshot> latest;
        TimePoint at{};
    };
    std::array<Answered, 2> answered_;  // without and with the history
    StartTimes start_times_;
    std::size_t staging_ = 0;
    std::size_t looking_ = 0;  // questions that a file system has not answered, whoever still waits
    std::size_t hashing_ = 0;  // files in the pool, whoever still waits
    std::map<std::string, std::size_t, std::less<>> hashes_of_;  // by peer, being waited for; no zeros
    net::Turns turns_;
    HashPool pool_;  // last: its threads end first
};

}  // namespace triton::agent
