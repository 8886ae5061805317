#include "host/content/unpack_watch.h"

#include <algorithm>
#include <cerrno>

#include <sys/statvfs.h>

#include "host/content/role_wait.h"
#include "host/content/verify_job.h"

namespace triton::content {

namespace {

constexpr milliseconds longest_silence = std::chrono::seconds(30);
constexpr milliseconds room_interval{250};

}  // namespace

UnpackWatch::UnpackWatch(int target, role::UnpackLimits const& limits)
    : target_(target),
      limits_(limits),
      deadline_(steady_now() + std::chrono::seconds(limits.seconds) + role_patience) {}

Result<> UnpackWatch::wait(role::RoleProcess& process, int cancel) {
    TimePoint const silent = steady_now() + longest_silence;
    while (!TRY(wait_for_message(process, std::min(silent, steady_now() + room_interval), cancel))) {
        TRY(check_room());
        if (steady_now() >= silent) return fail(ErrorKind::timeout, "triton-unpack hangs: it is silent");
    }
    if (steady_now() < deadline_) return {};
    return fail(ErrorKind::timeout, "a role has not answered in time");
}

Result<> UnpackWatch::check_room() const {
    struct statvfs space{};
    if (::fstatvfs(target_, &space) != 0) return fail(errno, "look at the target directory");
    std::uint64_t const free = std::uint64_t{space.f_bavail} * space.f_frsize;
    if (free >= limits_.least_free_bytes / 2) return {};
    return fail(ErrorKind::exhausted, "unpack", "No space left on device: " + std::to_string(free) + " are free");
}

}  // namespace triton::content
