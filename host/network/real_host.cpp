#include <array>
#include <cerrno>
#include <chrono>

#include <poll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/network/host.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/process/run_command.h"

namespace triton::network {

namespace {

constexpr std::chrono::seconds rules_limit{30};
constexpr std::chrono::seconds known_limit{10};
constexpr char udev_control[] = "/run/udev/control";
constexpr char udev_data[] = "/run/udev/data";

std::string first_line(std::string const& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Result<RealHost> RealHost::open() {
    auto watch = TRY(netlink::LinkWatch::open());
    return RealHost(TRY(netlink::Socket::open()), std::move(watch));
}

Result<> RealHost::wait_for_links(TimePoint deadline) {
    if (TRY(watch_.wait(deadline))) return {};
    return fail(ErrorKind::timeout, "wait for the links of the machine", "it takes too long");
}

Result<> RealHost::change_rules(std::string const& transaction) {
    constexpr char what[] = "change the rules of nftables";
    UniqueFd const input{::memfd_create("rules", MFD_CLOEXEC)};
    if (!input || !write_all(input.get(), transaction) || ::lseek(input.get(), 0, SEEK_SET) != 0)
        return fail(errno, what);
    auto const run = process::run_command({.arguments = {"nft", "-f", "-"}, .in = input.get(), .timeout = rules_limit});
    if (!run && run.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::unavailable, what, "there is no nft on this host");
    TRY(run);
    if (run->is_ok()) return {};
    return fail(ErrorKind::unsupported, what, first_line(run->errors));
}

Result<> RealHost::wait_until_known(netlink::Link const& link) {
    std::string const what = "wait for udev to know the link " + link.name;
    if (::access(udev_control, F_OK) != 0) return {};  // nothing watches links here
    UniqueFd const watch{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    if (!watch) return fail(errno, what);
    // watch first, look then: so nothing in between is missed
    if (::inotify_add_watch(watch.get(), udev_data, IN_MOVED_TO | IN_CREATE) < 0 && errno != ENOENT)
        return fail(errno, what);
    std::string const file = std::string(udev_data) + "/n" + std::to_string(link.index);
    auto const deadline = std::chrono::steady_clock::now() + known_limit;
    while (::access(file.c_str(), F_OK) != 0) {
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return fail(ErrorKind::timeout, what, "it takes longer than 10 s");
        pollfd events{watch.get(), POLLIN, 0};
        if (::poll(&events, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) return fail(errno, what);
        std::array<char, 4096> unread{};
        while (::read(watch.get(), unread.data(), unread.size()) > 0) {  // udev decides how many there are
        }
    }
    return {};
}

}  // namespace triton::network
