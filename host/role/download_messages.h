#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/role/failed_message.h"
#include "host/role/message.h"

namespace triton::role {

// Between the library and triton-download. One process serves many requests, side by side.

/// Has 3 descriptors: the write end of a pipe, a sealed memfd with the message Credentials, and a sealed memfd with
/// certificates of authorities in PEM; if that is empty, those of the system.
struct Download {
    static constexpr std::string_view name = "download";
    std::uint32_t id = 0;
    std::vector<std::string> urls;  ///< http or https; those after the first are mirrors
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> length = {};  ///< of a closed range from `offset`; none: everything
    /// How many bytes to take from `offset` on if a server sends everything instead of a range. None: that is a failure
    /// of kind `unsupported` with its status, 200.
    std::optional<std::uint64_t> whole_length = {};
    /// Entity tag, for the first URL; empty: none. If the server now has another one, nothing is written, and that is a
    /// failure of kind `corrupt` with the status of the answer.
    std::string if_range = {};
    std::uint64_t maximum = 0;  ///< how many bytes may come
    std::vector<std::string> accept = {};
    std::string scope = {};              ///< "repository:library/alpine:pull"
    std::uint64_t bytes_per_second = 0;  ///< 0: no limit
    std::uint64_t stall_milliseconds = 30'000;
};

/// Whether `plain` is `secure` without TLS: the same URL with http for https. It is no mirror: it is asked only when no
/// HTTPS is there, not because of what was answered.
bool is_plain_form(std::string_view secure, std::string_view plain);

/// Credentials for a server. They are sent only to this host.
struct HostCredential {
    std::string host;  ///< "registry.example:5000", as in the URL; without a port: its scheme's
    std::string user = {};
    std::string password = {};
    std::string token = {};  ///< used instead of both
    std::string identity_token =
        {};  ///< likewise: a token service gives a token for it. Source: OAuth 2.0, RFC 6749, 6
};
/// A proxy, with what it asks for.
struct Proxy {
    std::string url = {};  ///< of http, https, socks5 or socks5h, without a user; empty: none
    std::string user = {};
    std::string password = {};

    bool operator==(Proxy const&) const = default;
};
/// The proxies of a download, by the scheme of what is asked for. All its URLs go through them, also those of redirects
/// and token services.
struct Proxies {
    Proxy http = {};
    Proxy https = {};
    /// Hosts that are asked directly: "localhost,10.0.0.0/8,.example.org"; "*": all.
    std::string no_proxy = {};

    bool operator==(Proxies const&) const = default;
};
/// What a server needs beside credentials, for URLs that begin with `base` and a slash. The certificate and the headers
/// are for its own host only; its authorities also for where it redirects to, and for its token service.
struct ServerSettings {
    std::string base;                        ///< "https://mirror.example/v2"
    std::string authorities = {};            ///< certificates in PEM that are trusted beside the others
    std::string certificate = {};            ///< of the client, in PEM; empty: none
    std::string key = {};                    ///< its private key, in PEM
    std::vector<std::string> headers = {};   ///< "X-Name: value", sent with each request
    bool is_unverified = false;              ///< the certificate of this host may be any
    std::uint64_t connect_milliseconds = 0;  ///< how long a connection to it may take; 0: as long as a stall

    bool operator==(ServerSettings const&) const = default;
};

/// What a download needs and nobody else may read. It is longer than other messages: up to most_credential_bytes.
struct Credentials {
    static constexpr std::string_view name = "credentials";
    std::vector<HostCredential> hosts;
    Proxies proxies = {};
    std::vector<ServerSettings> servers = {};
};
inline constexpr std::size_t most_credential_bytes = 8 << 20;

struct Cancel {
    static constexpr std::string_view name = "cancel";
    std::uint32_t id = 0;
};

/// A URL that was asked before the one that answered, and why that one was asked.
struct PassedOver {
    std::string host;
    std::string reason;
};

/// The server has answered; bytes follow in the pipe.
struct Answer {
    static constexpr std::string_view name = "answer";
    std::uint32_t id = 0;
    std::uint32_t status = 0;
    std::optional<std::uint64_t> length = {};  ///< of the body
    std::optional<std::uint64_t> offset = {};  ///< Content-Range, of 206
    std::optional<std::uint64_t> size = {};    ///< of the whole, from Content-Range or the length of a 200
    std::string etag = {};
    std::string media_type = {};
    std::string final_host = {};  ///< after redirects
    std::string digest = {};      ///< Docker-Content-Digest: a hint
    std::vector<PassedOver> passed_over = {};
};
/// Everything was written to the pipe, which is closed.
struct Downloaded {
    static constexpr std::string_view name = "downloaded";
    std::uint32_t id = 0;
    std::uint64_t bytes = 0;
};
/// The pipe is closed; what was received before is in it.
struct DownloadFailed {
    static constexpr std::string_view name = "downloadFailed";
    std::uint32_t id = 0;
    ErrorKind kind = ErrorKind::internal;
    std::string reason;
    bool is_transient = false;
    std::uint32_t status = 0;  ///< of HTTP; 0: there was none yet
    std::optional<std::uint64_t> retry_after_milliseconds = {};
};
// A downloader that cannot confine itself sends `Failed`, and ends.

std::span<Row<Download> const> table(json::TableOf<Download>);
std::span<Row<HostCredential> const> table(json::TableOf<HostCredential>);
std::span<Row<Proxy> const> table(json::TableOf<Proxy>);
std::span<Row<Proxies> const> table(json::TableOf<Proxies>);
std::span<Row<ServerSettings> const> table(json::TableOf<ServerSettings>);
std::span<Row<Credentials> const> table(json::TableOf<Credentials>);
std::span<Row<Cancel> const> table(json::TableOf<Cancel>);
std::span<Row<PassedOver> const> table(json::TableOf<PassedOver>);
std::span<Row<Answer> const> table(json::TableOf<Answer>);
std::span<Row<Downloaded> const> table(json::TableOf<Downloaded>);
std::span<Row<DownloadFailed> const> table(json::TableOf<DownloadFailed>);

}  // namespace triton::role
