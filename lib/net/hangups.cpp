#include "lib/net/hangups.h"

#include <array>
#include <cerrno>
#include <unordered_map>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <sys/epoll.h>

#include "lib/base/unique_fd.h"

namespace triton::net {

namespace asio = boost::asio;

/// Has an epoll of its own: Asio does not ask for EPOLLRDHUP, and would not notice the end behind data that a peer
/// sends ahead.
struct Hangups::State : std::enable_shared_from_this<State> {
    State(Loop& loop, int epoll) : descriptor(loop, epoll) {}
    asio::posix::stream_descriptor descriptor;
    std::unordered_map<std::uint64_t, std::function<void()>> calls;
    std::unordered_map<int, std::uint64_t> latest;  // by socket number
    std::uint64_t last = 0;

    void wait() {
        descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                              [weak = weak_from_this()](boost::system::error_code failed) {
                                  auto const self = weak.lock();
                                  if (failed || !self) return;
                                  self->take();
                                  self->wait();
                              });
    }

    void take() {
        std::array<epoll_event, 64> events{};
        int const count = ::epoll_wait(descriptor.native_handle(), events.data(), static_cast<int>(events.size()), 0);
        for (int i = 0; i < count; ++i) {
            auto const found = calls.find(events[static_cast<std::size_t>(i)].data.u64);
            if (found == calls.end()) continue;
            auto const call = std::move(found->second);
            calls.erase(found);
            call();
        }
    }
};

Result<Hangups> Hangups::create(Loop& loop) {
    UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
    int const err = errno;
    if (!epoll) return fail(err, "watch connections");
    auto state = std::make_shared<State>(loop, epoll.release());
    state->wait();
    return Hangups(std::move(state));
}

std::unique_ptr<Hangups::Watch> Hangups::watch(int socket, std::function<void()> call) {
    std::uint64_t const number = ++state_->last;
    epoll_event event{};
    event.events = EPOLLRDHUP | EPOLLONESHOT;
    event.data.u64 = number;
    // A socket that cannot be watched is noticed when the answer is written.
    if (::epoll_ctl(state_->descriptor.native_handle(), EPOLL_CTL_ADD, socket, &event) == 0) {
        state_->calls.emplace(number, std::move(call));
        state_->latest.insert_or_assign(socket, number);
    }
    return std::unique_ptr<Watch>(new Watch(state_, socket, number));
}

Hangups::Watch::Watch(std::shared_ptr<State> state, int socket, std::uint64_t number)
    : state_(std::move(state)), socket_(socket), number_(number) {}

Hangups::Watch::~Watch() {
    state_->calls.erase(number_);
    // A closed socket is no longer watched, and its number may belong to another by now.
    auto const latest = state_->latest.find(socket_);
    if (latest == state_->latest.end() || latest->second != number_) return;
    state_->latest.erase(latest);
    (void)::epoll_ctl(state_->descriptor.native_handle(), EPOLL_CTL_DEL, socket_, nullptr);
}

}  // namespace triton::net
