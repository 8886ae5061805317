#include "launcher/services/links.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

// Writers choose how much there is: after so many reads there is a pause.
constexpr int most_reads = 16;
constexpr Duration between_reads = milliseconds(20);

}  // namespace

Result<Links::Ends> Links::ends(std::string_view reader) {
    auto known = std::ranges::find(links_, reader, &Link::reader);
    if (known != links_.end() && known->is_abandoned && !take_back(*known)) {
        known->reader.clear();  // its writers have no reader any more; new ones have a pipe of their own
        known = links_.end();
    }
    if (known == links_.end()) {
        int made[2] = {-1, -1};
        if (::pipe2(made, O_CLOEXEC) != 0)
            return fail(errno, "make a pipe to the standard input of " + std::string(reader));
        links_.push_back({std::string(reader), UniqueFd{made[0]}, UniqueFd{made[1]}});
        known = links_.end() - 1;
    }
    return Ends{known->read_end.get(), known->write_end.get()};
}

/// Makes an abandoned pipe one with a reader again. Our write end was closed, to see when the last writer has ended.
bool Links::take_back(Link& link) {
    std::string const path = "/proc/self/fd/" + std::to_string(link.read_end.get());
    UniqueFd write_end{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (!write_end || ::fcntl(link.read_end.get(), F_SETFL, 0) != 0) return false;
    link.write_end = std::move(write_end);
    link.is_abandoned = false;
    link.emptied = {};
    return true;
}

Result<bool> Links::abandon(std::string_view reader) {
    auto const link = std::ranges::find(links_, reader, &Link::reader);
    if (link == links_.end() || link->is_abandoned) return false;
    return empty_from_now_on(link);
}

/// Returns whether there are writers. Without any the pipe is gone.
Result<bool> Links::empty_from_now_on(std::vector<Link>::iterator link) {
    int const read_end = link->read_end.get();
    TRY(watch(*link));
    link->is_abandoned = true;
    link->write_end = UniqueFd{};
    (void)::fcntl(read_end, F_SETFL, O_NONBLOCK);  // cannot fail for a pipe
    empty(read_end);
    return std::ranges::any_of(links_, [read_end](Link const& one) { return one.read_end.get() == read_end; });
}

Result<> Links::watch(Link& link) {
    int const read_end = link.read_end.get();
    link.emptied = TRY(loop_.on_readable(read_end, [this, read_end] { empty(read_end); }));
    return {};
}

void Links::empty(int read_end) {
    auto const link = std::ranges::find_if(links_, [=](Link const& one) { return one.read_end.get() == read_end; });
    std::array<char, 16384> thrown_away;
    for (int reads = 0; reads < most_reads; ++reads) {
        ssize_t const size = ::read(read_end, thrown_away.data(), thrown_away.size());
        if (size > 0 || (size < 0 && errno == EINTR)) continue;
        if (size < 0) return;
        link->emptied = {};  // before its descriptor is closed
        links_.erase(link);
        return;
    }
    link->emptied = {};
    if (!pause_.is_armed()) pause_.arm(loop_.now() + between_reads);
}

/// Reads on where there was a pause.
void Links::go_on() {
    for (Link& link : links_)
        if (link.is_abandoned && !link.emptied && !watch(link)) pause_.arm(loop_.now() + between_reads);
}

void Links::close_unwritten(std::span<std::string_view const> written) {
    for (Link& link : links_)
        if (!std::ranges::binary_search(written, link.reader)) link.write_end = UniqueFd{};
}

bool Links::is_writing_open() const {
    return std::ranges::any_of(links_, [](Link const& link) { return bool{link.write_end}; });
}

std::vector<LinkState> Links::export_state() const {
    std::vector<LinkState> state;
    for (Link const& link : links_)
        state.push_back({link.reader, link.read_end.get(), link.write_end.get()});
    return state;
}

Result<> Links::import_state(std::vector<LinkState> const& state) {
    Result<> outcome;
    for (LinkState const& link : state) {
        links_.push_back({link.reader, UniqueFd{link.read_end}, UniqueFd{link.write_end}});
        for (int const fd : {link.read_end, link.write_end})
            if (fd >= 0) (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (link.write_end >= 0) continue;
        if (auto const emptied = empty_from_now_on(links_.end() - 1); !emptied)
            outcome = std::unexpected(emptied.error());
    }
    return outcome;
}

}  // namespace triton::launcher
