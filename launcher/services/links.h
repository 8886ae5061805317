#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// What another version of us needs to continue with the same pipes. Descriptors are borrowed.
struct LinkState {
    std::string reader;
    int read_end = -1;
    int write_end = -1;  ///< -1: closed

    bool operator==(LinkState const&) const = default;
};

/// The pipes by which programs write to the standard input of others, one for each reader. We hold both ends, so that
/// neither side notices the end of the other: written data waits for the next reader, and no writer gets SIGPIPE. What
/// is inside is for them alone. A pipe stays until the container's end, or until its reader has left the configuration
/// and its last writer has ended.
class Links {
public:
    /// `loop` outlives this.
    explicit Links(EventLoop& loop) : loop_(loop), pause_(loop, [this] { go_on(); }) {}

    struct Ends {
        int read = -1;
        int write = -1;
    };
    /// Of the pipe to this reader, which is made at the first call. Borrowed. Errors: those of pipe2(2).
    Result<Ends> ends(std::string_view reader);

    /// There will be no reader. Writers that have not ended do not wait for one: what they write is thrown away until
    /// they end, or until somebody asks for the ends again: some 10 MB a second, since it is our time that this takes.
    /// Returns whether there are such.
    /// Errors: those of epoll_ctl(2).
    Result<bool> abandon(std::string_view reader);

    /// When the container ends: readers without writers find the end of their input. `written`: the
    /// readers that have writers, in ascending order.
    void close_unwritten(std::span<std::string_view const> written);
    [[nodiscard]] bool is_writing_open() const;

    // For an upgrade.
    [[nodiscard]] std::vector<LinkState> export_state() const;
    /// Errors: those of abandon(), of pipes that were abandoned. They are imported all the same.
    Result<> import_state(std::vector<LinkState> const& state);

private:
    struct Link {
        std::string reader;
        UniqueFd read_end;
        UniqueFd write_end;
        bool is_abandoned = false;
        EventLoop::Watch emptied{};  // while it is, but for pauses; after the descriptor, to be dropped before it
    };
    Result<bool> empty_from_now_on(std::vector<Link>::iterator link);
    Result<> watch(Link& link);
    void empty(int read_end);
    void go_on();
    static bool take_back(Link& link);

    EventLoop& loop_;
    std::vector<Link> links_;
    EventLoop::Timer pause_;
};

}  // namespace triton::launcher
