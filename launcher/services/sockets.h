#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "config/program.h"
#include "lib/base/far_files.h"
#include "lib/base/place.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// One entry of `sockets`, its user and group looked up.
struct SocketRequest {
    config::SocketAddress address;
    mode_t mode = 0660;          ///< if it has a path
    std::optional<uid_t> user;   ///< if it has a path
    std::optional<gid_t> group;  ///< if it has a path
    int backlog = 4096;
    std::string place;  ///< for texts: programs.web.sockets[0]
};

/// The state with which a SocketTable of another version of us continues.
struct SocketState {
    struct Entry {
        config::SocketAddress address;
        int fd = -1;
        bool is_ours = false;  ///< the name in the file system, made by us
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
    };
    std::vector<Entry> entries;
};

/// Listening sockets and FIFOs that outlive the processes they are passed to. Each address is opened once, however many
/// programs ask for it, and stays open as long as any of them does.
///
/// "tcp::80" listens on IPv6 and IPv4 (on IPv4 alone where there is no IPv6), "tcp:[::]:80" on IPv6 alone, so that it
/// can stand beside "tcp:0.0.0.0:80". A name in the file system that an earlier listener left behind is replaced if
/// nobody listens there; an existing FIFO is used. FIFOs are also open for writing, so that readers never see an
/// end. The program may own the directory: owner and mode are changed by descriptor, of the file that was made only.
class SocketTable {
public:
    /// Does something with a path whose file system may hang; see PathProbe.
    struct Paths {
        MayTouch may_touch;
        std::function<void(std::string const& path, std::function<void()> const& change)> change;
    };

    SocketTable() = default;
    SocketTable(SocketTable const&) = delete;
    SocketTable& operator=(SocketTable const&) = delete;
    SocketTable(SocketTable&&) = default;
    /// Closes all, and removes the names that this table has made and that still are its own.
    ~SocketTable();

    /// From now on the paths of open sockets are touched by these alone. Those that are opened have been looked at with
    /// the configuration that wants them.
    void set_paths(Paths paths) { paths_ = std::move(paths); }

    /// Opens what is new in `wanted`. Open ones stay as they are, except for mode, user, group and backlog, which
    /// are set anew. Nothing is closed: see keep_only().
    /// Errors: "programs.web.sockets[0]: cannot listen on tcp:0.0.0.0:80: Address already in use"; what this call has
    /// opened is closed again then.
    Result<> open(std::vector<SocketRequest> const& wanted);
    /// After open(), of a configuration that was rejected in the end: these are open, and as they were.
    void go_back_to(std::vector<SocketRequest> const& requests);
    /// Closes what is not in `wanted`, after a configuration was accepted.
    void keep_only(std::vector<SocketRequest> const& wanted);

    /// The descriptor of an address, borrowed, blocking, close-on-exec; -1: not open.
    [[nodiscard]] int fd(config::SocketAddress const& address) const;

    [[nodiscard]] SocketState export_state() const;
    /// Takes the descriptors of `state`; `this` is empty before.
    void import_state(SocketState const& state);

private:
    struct Entry {
        config::SocketAddress address;
        UniqueFd fd;
        bool is_ours = false;
        FileId file;
    };
    Result<Entry> open_one(SocketRequest const& request);
    [[nodiscard]] Result<> set_up_again(SocketRequest const& request, Entry const& entry) const;
    void close_one(Entry& entry);
    Entry* find(config::SocketAddress const& address);

    std::vector<Entry> entries_;
    Paths paths_;
};

}  // namespace triton::launcher
