#include "host/content/boot_clock.h"

#include <ctime>

#include "lib/base/read_file.h"

namespace triton::content {

Result<BootTime> boot_time() {
    std::string boot = TRY(read_file("/proc/sys/kernel/random/boot_id", 128));
    while (!boot.empty() && boot.back() == '\n')
        boot.pop_back();
    timespec now{};
    (void)::clock_gettime(CLOCK_BOOTTIME, &now);  // cannot fail: the clock exists since Linux 2.6.39
    return BootTime{std::move(boot), std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000};
}

milliseconds passed_since(BootTime const& then, BootTime const& now) {
    return milliseconds(now.milliseconds - (then.boot == now.boot ? then.milliseconds : 0));
}

}  // namespace triton::content
