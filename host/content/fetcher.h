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
#include "host/role/download_messages.h"
#include "host/role/verify_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::content {

/// Credentials for a server. They travel to the downloader in a sealed memfd, and appear in no message, log or command
/// line. They are sent only to their own host.
struct Credential {
    std::string host;  ///< "registry.example:5000", as in the URL; without a port: its scheme's
    std::string user = {};
    std::string password = {};
    std::string token = {};           ///< instead of both: "Authorization: Bearer <token>"
    std::string identity_token = {};  ///< instead of both: the token service gives a token for it
};

using role::ServerSettings;

/// How to reach what is fetched. Several fetches may share it.
struct Access {
    std::vector<Credential> credentials = {};
    std::vector<ServerSettings> servers = {};       ///< what some of the servers need beside that
    role::Proxies proxies = {};                     ///< never those of the environment
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
    /// The digest of the bytes. Without it `most_bytes` limits them, and the digest is whatever they have; only for
    /// content that nothing describes.
    std::optional<Digest> digest = {};
    std::optional<std::string> sha1 = {};    ///< 40 hexadecimal digits: old manifests have nothing better
    std::optional<std::uint64_t> size = {};  ///< exact, from a trusted source
    std::uint64_t most_bytes = 1ULL << 40;
    BlobFacts facts = {};        ///< an empty source becomes the URL that the bytes came from
    Protection protection = {};  ///< of the blob, as soon as it is in the store
};

/// The progress of one fetch. The rate is of the last seconds.
struct Progress {
    enum class Phase : std::uint8_t {
        waiting_for_lock,  ///< another process is importing the same
        connecting,
        downloading,
        retrying,   ///< `waiting_for` says why
        verifying,  ///< all bytes are there
        stored,
    };
    std::size_t request = 0;  ///< its index in this call, from 0
    Phase phase = Phase::connecting;
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> size = {};
    std::uint64_t resumed = 0;  ///< bytes that were there before
    std::uint64_t bytes_per_second = 0;
    std::string_view waiting_for = {};
};

/// Returns "downloading", for example.
std::string_view name_of(Progress::Phase phase);

/// All calls come from the thread that fetches.
struct Watcher {
    std::function<void(Progress const&)> progress = {};                                  ///< at most ten a second each
    std::function<void(std::size_t request, Result<Blob> const& result)> finished = {};  ///< once for each
    int cancel = -1;  ///< readable: give up, and keep what is there
    /// A server was asked before the one that answered, and had this reason; for each fetch.
    std::function<void(role::PassedOver const&)> passed_over = {};
};

using role::DocumentKind;

struct DocumentRequest {
    Remote remote;
    std::optional<Digest> digest = {};
    std::optional<std::uint64_t> size = {};
    std::uint64_t most_bytes = 4 << 20;
    DocumentKind kind = DocumentKind::other;  ///< what the verifier checks it as
    BlobFacts facts = {};
    bool is_kept = true;  ///< as a blob in the store; otherwise only the facts are wanted
    Protection protection = {};
};

struct Document {
    Digest digest;  ///< of the received bytes
    std::uint64_t size = 0;
    std::string media_type;  ///< as the server says: only a hint
    std::string json;        ///< checked and normalised by the verifier
};

struct FetcherSettings {
    std::string libexec = {};  ///< see role::RoleSettings
    unsigned streams = 4;      ///< ranges of one blob at a time
    unsigned fetches = 3;      ///< blobs at a time
    std::uint64_t range_bytes = 16 << 20;
    std::uint64_t parallel_from = 32 << 20;  ///< anything smaller is fetched in one piece
    RetrySettings retry = {};
    /// A role that should have something to say, but is silent for this long, is ended.
    milliseconds role_silence = std::chrono::seconds(30);
    milliseconds lock_patience = std::chrono::hours(1);
};

/// Brings content from servers into the store. One process downloads it, and another verifies it and is the only one to
/// write it. An interrupted fetch is resumed. Two simultaneous fetches of the same content, even in two processes,
/// download it once.
class Fetcher {
public:
    /// `store` must outlive this.
    Fetcher(Store& store, FetcherSettings settings);
    ~Fetcher();

    /// Errors: `not_found`, `denied`, `unavailable`, `timeout` from servers, after as many attempts as make sense;
    /// `corrupt` for wrong bytes; `refused`: "cancelled"; those of the store.
    Result<Blob> fetch_blob(Access const& access, BlobRequest const& request, Watcher const& watcher = {});

    /// Fetches many likewise, side by side, and in the order of the list where they must wait. Returns one result for
    /// each.
    std::vector<Result<Blob>> fetch_blobs(Access const& access, std::span<BlobRequest const> requests,
                                          Watcher const& watcher = {});

    /// Fetches a small document: a manifest, an index, a list of images.
    Result<Document> fetch_document(Access const& access, DocumentRequest const& request, Watcher const& watcher = {});

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace triton::content
