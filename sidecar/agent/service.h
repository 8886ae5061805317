#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>  // Boost 1.74's awaitable.hpp needs std::exchange and does not say so
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/files/confined_directory.h"
#include "sidecar/agent/hash_cache.h"
#include "sidecar/agent/hash_pool.h"
#include "sidecar/agent/metrics.h"
#include "sidecar/agent/routing.h"
#include "sidecar/agent/status.h"
#include "sidecar/control/control_client.h"

namespace triton::agent {

/// One request, read whole. The texts are borrowed until it is answered.
struct Request {
    Route route;
    std::string_view body;
    std::string_view accept;
    bool has_accepted_certificate = false;
};

struct Reply {
    unsigned status = 200;
    std::string_view type = "text/plain; charset=utf-8";  ///< a literal
    std::string body;
    std::string_view allow;      ///< for 405
    bool ends_agent = false;     ///< once the reply is written
    bool asks_to_retry = false;  ///< 503: it is worth another try soon
};

/// "<text>\n" with a status.
Reply text_reply(unsigned status, std::string text);

/// What a failure is in HTTP, by its errno.
unsigned status_of(Error const& error);

struct ServiceSettings {
    std::string version;             ///< of the agent
    std::string substitutions_json;  ///< for /substitutions
    std::size_t hash_threads = 2;
    std::size_t cached_hashes = 4096;
    std::size_t most_hashes = 256;  ///< being computed or waiting, each with a descriptor
    std::size_t most_paths = 1000;  ///< in one request
    std::size_t most_busy = 512;    ///< requests that wait for something; the other connections are for probes
};

/// What the endpoints do, without HTTP. One I/O thread; hashes are computed by others.
class Service {
public:
    struct Surroundings {
        boost::asio::io_context& io;
        files::ConfinedDirectory const* output;  ///< null: there is none, hence no files
        sidecar::control::ControlClient& control;
        AgentFigures& figures;
        std::function<Result<bool>()> reload_certificates;  ///< empty: no TLS
    };

    Service(ServiceSettings settings, Surroundings around);
    ~Service();
    Service(Service const&) = delete;
    Service& operator=(Service const&) = delete;

    /// `request.route` has no error, and whoever asks may.
    boost::asio::awaitable<Reply> answer(Request const& request);

private:
    struct Snapshot {
        SupervisionStatus status;
        std::string launcher_json;
        std::string programs_json;
    };
    using SharedSnapshot = std::shared_ptr<Snapshot const>;
    struct Waiting;
    struct PendingHash;
    struct KeyHasher {
        std::size_t operator()(FileKey const& key) const noexcept { return key.inode * 31 + key.device; }
    };
    struct HashedFile {
        std::string sha256;
        std::uint64_t bytes = 0;
    };

    boost::asio::awaitable<Reply> answer_slowly(Request const& request);
    boost::asio::awaitable<Result<std::vector<json::Node>>> ask(std::string method, std::string parameters, bool more,
                                                                Duration limit);
    boost::asio::awaitable<Result<SharedSnapshot>> snapshot();
    boost::asio::awaitable<Result<SharedSnapshot>> fetch_snapshot();
    boost::asio::awaitable<Reply> readyz();
    boost::asio::awaitable<Reply> metrics(std::string_view accept);
    boost::asio::awaitable<Reply> status();
    boost::asio::awaitable<Reply> check_hash(std::string path);
    boost::asio::awaitable<Reply> hashes(std::string_view body);
    boost::asio::awaitable<Result<StagingReply>> stage(std::string_view what);
    boost::asio::awaitable<Reply> copy(std::string_view what);
    boost::asio::awaitable<Reply> stage_in_detail(std::string_view body);
    Reply is_present(std::string const& path) const;
    Reply refresh_certificates();

    /// Known at once, or to be waited for, or an error.
    using Begun = std::expected<HashedFile, Result<std::shared_ptr<PendingHash>>>;
    Begun begin_hash(std::string const& path);
    boost::asio::awaitable<Result<HashedFile>> finish_hash(std::shared_ptr<PendingHash> pending);
    boost::asio::awaitable<Result<HashedFile>> hash(std::string path, Begun begun);
    void hash_done(FileKey const& key, Result<FileHash> result);

    ServiceSettings settings_;
    Surroundings around_;
    HashCache cache_;
    std::unordered_map<FileKey, std::shared_ptr<PendingHash>, KeyHasher> pending_;
    std::shared_ptr<Waiting> fetching_;  // somebody asks the launcher; others wait for his answer
    Result<SharedSnapshot> latest_;
    TimePoint latest_at_{};
    std::size_t staging_ = 0;
    std::size_t busy_ = 0;
    HashPool pool_;  // last: its threads end first
};

}  // namespace triton::agent
