#include "host/unpack/pace.h"

#include <cerrno>
#include <string>

#include <sys/statfs.h>

namespace triton::unpack {

namespace {

constexpr milliseconds report_interval{100};
/// How much is written before the room is looked at again: little beside what stays free, in bytes and in inodes.
constexpr std::uint64_t most_unchecked_bytes = 4 << 20;
constexpr unsigned most_unchecked_steps = 16;

}  // namespace

Pace::Pace(int root, role::UnpackLimits const& limits)
    : root_(root),
      limits_(limits),
      deadline_(steady_now() + std::chrono::seconds(limits.seconds)),
      next_report_(steady_now() + report_interval),
      steps_(most_unchecked_steps) {}

void Pace::note_life() {
    TimePoint const now = steady_now();
    if (now < next_report_) return;
    next_report_ = now + report_interval;
    if (report_) report_();
}

Result<> Pace::step(std::uint64_t written) {
    note_life();
    if (steady_now() >= deadline_)
        return fail(ErrorKind::refused, "archive takes longer than " + std::to_string(limits_.seconds) + " seconds");
    written_ += written;
    if (++steps_ < most_unchecked_steps && written_ < most_unchecked_bytes) return {};
    steps_ = 0;
    written_ = 0;
    return check_room();
}

Result<> Pace::check_room() {
    struct statfs space{};
    if (::fstatfs(root_, &space) != 0) return fail(errno, "look at the file system of the tree");
    std::uint64_t const free = static_cast<std::uint64_t>(space.f_bavail) * static_cast<std::uint64_t>(space.f_bsize);
    if (free < limits_.least_free_bytes)
        return fail(ErrorKind::exhausted, "No space left on device: " + std::to_string(limits_.least_free_bytes) +
                                              " bytes stay free, and " + std::to_string(free) + " are free");
    // Some file systems make inodes when they are needed.
    if (space.f_files != 0 && space.f_ffree < limits_.least_free_inodes)
        return fail(ErrorKind::exhausted, "No space left on device: " + std::to_string(limits_.least_free_inodes) +
                                              " inodes stay free, and " + std::to_string(space.f_ffree) + " are free");
    return {};
}

}  // namespace triton::unpack
