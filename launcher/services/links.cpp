#include "launcher/services/links.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace triton::launcher {

Result<Links::Ends> Links::ends(std::string_view reader) {
    auto known = std::ranges::find(links_, reader, &Link::reader);
    if (known == links_.end()) {
        int made[2] = {-1, -1};
        if (::pipe2(made, O_CLOEXEC) != 0)
            return fail(errno, "make a pipe to the standard input of " + std::string(reader));
        links_.push_back({std::string(reader), UniqueFd{made[0]}, UniqueFd{made[1]}});
        known = links_.end() - 1;
    }
    return Ends{known->read_end.get(), known->write_end.get()};
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

void Links::import_state(std::vector<LinkState> const& state) {
    for (LinkState const& link : state) {
        links_.push_back({link.reader, UniqueFd{link.read_end}, UniqueFd{link.write_end}});
        for (int const fd : {link.read_end, link.write_end})
            if (fd >= 0) (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

}  // namespace triton::launcher
