#include "host/cri/images/pulls.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace triton::cri {

void Pulls::pull(PullKey const& key, Done done) {
    auto const same = std::ranges::find(running_, key, &Running::key);
    if (same != running_.end()) return same->waiting.push_back(std::move(done));
    UniqueFd cancel{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!cancel) return done(fail(errno, "begin to pull " + key.reference));
    int const cancel_fd = cancel.get();
    auto const one = running_.insert(running_.end(), Running{key, std::move(cancel), {}});
    one->waiting.push_back(std::move(done));
    auto const started = start_(key, cancel_fd, [this, one](Result<std::string> const& id) { finish(one, id); });
    if (!started) finish(one, std::unexpected(started.error()));
}

void Pulls::finish(std::list<Running>::iterator one, Result<std::string> const& id) {
    std::vector<Done> const waiting = std::exchange(one->waiting, {});
    running_.erase(one);
    for (Done const& done : waiting)
        done(id);
}

void Pulls::cancel() {
    for (Running const& one : running_) {
        std::uint64_t const signal = 1;
        (void)!::write(one.cancel.get(), &signal, sizeof signal);  // if it is full, it is cancelled already
    }
}

}  // namespace triton::cri
