#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/content/digest.h"
#include "host/content/retry.h"
#include "host/content/store.h"
#include "host/role/verify_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::content {

/// Credentials for a server. They travel to the downloader in a sealed memfd, and are in no message, log or command
/// line. It is sent to its host only.
struct Credential {
    std::string host;  ///< "registry.example:5000", as in the URL; without a port: its scheme's
    std::string user = {};
    std::string password = {};
    std::string token = {};  ///< instead of both: "Authorization: Bearer <token>"
};

/// How what is fetched can be reached. Several fetches may share it.
struct Access {
    std::vector<Credential> credentials = {};
    std::string proxy = {};                         ///< "http://proxy:3128"; empty: none
    std::string authorities = {};                   ///< certificates in PEM; empty: those of the system
    std::uint64_t bytes_per_second = 0;             ///< limit of this access; 0: none
    milliseconds stall = std::chrono::seconds(30);  ///< a transfer that moves nothing for this long is given up
};

/// The object of a fetch.
struct Remote {
    std::vector<std::string> urls;         ///< http or https; the first that can give it does, the rest are mirrors
    std::vector<std::string> accept = {};  ///< media types, for a registry
    /// Of an OCI registry: "repository:library/alpine:pull". A token is asked for when the registry wants one.
    std::string scope = {};
};

struct BlobRequest {
    Remote remote;
    /// Of the bytes. None: `most_bytes` bounds it, and the digest is what comes; only where nothing says what it is.
    std::optional<Digest> digest = {};
    std::optional<std::string> sha1 = {};    ///< 40 hexadecimal digits: an old manifest has nothing better
    std::optional<std::uint64_t> size = {};  ///< exactly, when something trusted has said so
    std::uint64_t most_bytes = 1ULL << 40;
    BlobFacts facts = {};               ///< an empty source becomes the URL that gave it
    std::optional<LeaseId> lease = {};  ///< it is put under
};

/// The progress of one fetch. The rate is of the last seconds.
struct Progress {
    enum class Phase : std::uint8_t {
        waiting_for_lock,  ///< another process imports the same
        connecting,
        downloading,
        retrying,   ///< `waiting_for` says why
        verifying,  ///< all is there
        stored,
    };
    std::size_t request = 0;  ///< of those of one call, from 0
    Phase phase = Phase::connecting;
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> size = {};
    std::uint64_t resumed = 0;  ///< of the bytes: those that were there before
    std::uint64_t bytes_per_second = 0;
    std::string_view waiting_for = {};
};

/// "downloading".
std::string_view name_of(Progress::Phase phase);

/// All calls come from the thread that fetches.
struct Watcher {
    std::function<void(Progress const&)> progress = {};                                  ///< at most ten a second each
    std::function<void(std::size_t request, Result<Blob> const& result)> finished = {};  ///< once for each
    int cancel = -1;  ///< readable: give up, and keep what is there
};

using role::DocumentKind;

struct DocumentRequest {
    Remote remote;
    std::optional<Digest> digest = {};
    std::optional<std::uint64_t> size = {};
    std::uint64_t most_bytes = 4 << 20;
    DocumentKind kind = DocumentKind::other;  ///< what the verifier takes it for
    BlobFacts facts = {};
    bool is_kept = true;  ///< as a blob in the store; else only the facts are wanted
    std::optional<LeaseId> lease = {};
};

struct Document {
    Digest digest;  ///< of the bytes that came
    std::uint64_t size = 0;
    std::string media_type;  ///< what the server said: a hint and nothing more
    std::string json;        ///< checked and normalised by the verifier
};

struct FetcherSettings {
    std::string libexec = {};  ///< see role::RoleSettings
    unsigned streams = 4;      ///< ranges of one blob at a time
    unsigned fetches = 3;      ///< blobs at a time
    std::uint64_t range_bytes = 16 << 20;
    std::uint64_t parallel_from = 32 << 20;  ///< what is smaller comes in one piece
    RetrySettings retry = {};
    /// A role that should have something to say, and has not for this long, is ended.
    milliseconds role_silence = std::chrono::seconds(30);
    milliseconds lock_patience = std::chrono::hours(1);
};

/// Brings content from servers into the store: downloaded by one process, verified by another, which alone writes.
/// An interrupted fetch is resumed. Two simultaneous fetches of the same, even in two processes, download it once.
class Fetcher {
public:
    /// `store` outlives this.
    Fetcher(Store& store, FetcherSettings settings);
    ~Fetcher();

    /// Errors: `not_found`, `denied`, `unavailable`, `timeout` from servers, after as many attempts as make sense;
    /// `corrupt` for wrong bytes; `refused`: "cancelled"; those of the store.
    Result<Blob> fetch_blob(Access const& access, BlobRequest const& request, Watcher const& watcher = {});

    /// The same of many, side by side, in the order of the list where it must wait. Returns one result for each.
    std::vector<Result<Blob>> fetch_blobs(Access const& access, std::span<BlobRequest const> requests,
                                          Watcher const& watcher = {});

    /// Fetches what is small and says something: a manifest, an index, a list of images.
    Result<Document> fetch_document(Access const& access, DocumentRequest const& request, Watcher const& watcher = {});

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace triton::content
