#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/net/address.h"
#include "lib/net/loop.h"

namespace triton::net {

/// Whether it is a host's name: at most 253 characters, in labels of at most 63 letters, digits and inner dashes; one
/// dot may end it, and the name is absolute then. A last label of digits alone would be a mistyped address: no name.
/// Source: RFC 1123, 2.1.
bool is_host_name(std::string_view text);

/// How long one DNS server is waited for, and how often each is asked.
struct ResolverPatience {
    Duration timeout = std::chrono::seconds(5);  ///< doubled each time that all servers have been asked
    int attempts = 2;
    bool operator==(ResolverPatience const&) const = default;
};

/// What the content of a resolv.conf says about that, within the limits of glibc. Source: resolv.conf(5), "options".
ResolverPatience parse_patience(std::string_view resolv_conf);

/// The files that a Resolver reads for each lookup. The last: for query numbers that cannot be guessed.
inline constexpr std::array resolver_files{"/etc/hosts", "/etc/resolv.conf", "/dev/urandom"};

struct ResolverSettings {
    std::string configuration = "/etc/resolv.conf";
    std::uint16_t port = 53;                    ///< of the servers it names
    Duration limit = std::chrono::seconds(30);  ///< of a lookup, whatever the configuration says
};

/// Resolves host names by /etc/hosts, then by DNS as resolv.conf(5) says (search, ndots, timeout, attempts, rotate,
/// several servers, TCP after a truncated answer). glibc's own resolver would need shared files at run time, and a
/// thread. Nothing is kept between lookups: each reads the files again. One I/O thread; every function is called in it.
///
/// Needs of the system, once the sandbox has closed: UDP and TCP sockets (protocol 0 too), and to read
/// `resolver_files`.
class Resolver {
public:
    explicit Resolver(Loop& loop, ResolverSettings settings = {});
    ~Resolver();
    Resolver(Resolver const&) = delete;
    Resolver& operator=(Resolver const&) = delete;

    /// The addresses of a host, the best first (RFC 6724); never none. An address is itself, without a lookup. The
    /// resolver must outlive the coroutine. Errors, all "cannot resolve <host>: ...": no such name, no address, no
    /// server that answers in time, an unreadable configuration, stop().
    Task<Result<std::vector<Address>>> resolve(std::string host);

    /// Ends all lookups, those to come included.
    void stop() noexcept;

private:
    class Lookup;
    Loop& loop_;
    ResolverSettings settings_;
    std::vector<std::weak_ptr<Lookup>> lookups_;
    bool is_stopped_ = false;
};

}  // namespace triton::net
