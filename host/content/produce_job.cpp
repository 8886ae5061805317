#include "host/content/produce_job.h"

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/content/role_wait.h"
#include "host/content/unpack_watch.h"
#include "host/role/detached_mount.h"
#include "host/role/unpack_messages.h"
#include "lib/base/clock.h"
#include "lib/base/write_all.h"

namespace triton::content {

namespace {

/// A file that only its two ends see, and nobody can change any more.
Result<UniqueFd> sealed_text(std::string const& text) {
    UniqueFd fd(::memfd_create("seed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || !write_all(fd.get(), text) || ::lseek(fd.get(), 0, SEEK_SET) != 0 ||
        ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return fail(errno, "keep a seed in memory");
    return fd;
}

/// Waits for the end of a job that a program of the system does.
Result<> wait_for_product(JobSettings const& settings, role::RoleProcess& process, int target,
                          role::UnpackLimits const& limits, std::function<void(std::uint64_t)> const& progress) {
    UnpackWatch watch(target, limits);
    for (;;) {
        TRY(watch.wait(process, settings.cancel));
        role::Packet const packet = TRY(receive_from(process, steady_now() + role_patience, settings.cancel));
        auto const message = role::decode<role::Unpacking, role::Produced, role::Failed>(packet.text);
        if (!message) {
            process.kill();
            return std::unexpected(message.error());
        }
        if (auto const* const state = std::get_if<role::Unpacking>(&*message)) {
            TRY(watch.check_room());
            if (progress) progress(state->bytes);
            continue;
        }
        TRY(process.finish(end_deadline()));
        if (auto const* const failed = std::get_if<role::Failed>(&*message))
            return std::unexpected(role::error_of(*failed));
        return {};
    }
}

template <class Job>
Result<role::RoleProcess> start_job(JobSettings const& settings, Job const& job, std::vector<int> const& descriptors) {
    auto process = TRY(role::RoleProcess::start(role::Role::unpack, settings.role));
    TRY(role::send(process.channel(), job, steady_now() + role_patience, descriptors));
    return process;
}

Result<std::uint64_t> size_of_file(int file) {
    struct stat status{};
    if (::fstat(file, &status) != 0) return fail(errno, "look at the target");
    return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

Result<> convert_disk(JobSettings const& settings, disk::Format format, int image, int target,
                      std::function<void(std::uint64_t bytes)> const& progress) {
    std::uint64_t const bytes = TRY(size_of_file(target));
    UniqueFd const lent = TRY(role::detached_mount(image, "the image"));
    if (role::restrict_mount(lent.get(), MOUNT_ATTR_RDONLY) != 0) return fail(errno, "lend the image");
    UniqueFd const writable = TRY(role::detached_mount(target, "the target"));
    role::ConvertDisk const job{.format = format, .bytes = bytes};
    auto process = TRY(start_job(settings, job, {lent.get(), writable.get()}));
    TRY(wait_for_product(settings, process, target, {.seconds = job.seconds}, progress));
    // A program that makes it larger than it was told takes room that nobody has promised.
    if (TRY(size_of_file(target)) != bytes) return fail(ErrorKind::corrupt, "triton-unpack has changed the size");
    return {};
}

Result<> resize_disk(JobSettings const& settings, disk::Format format, int image, std::uint64_t bytes) {
    static constexpr std::uint32_t patience = 900;  // seconds
    UniqueFd const writable = TRY(role::detached_mount(image, "the image"));
    auto process = TRY(start_job(settings, role::ResizeDisk{.format = format, .bytes = bytes}, {writable.get()}));
    return wait_for_product(settings, process, image, {.seconds = patience}, {});
}

Result<> make_seed(JobSettings const& settings, SeedRequest const& request, int target) {
    static constexpr std::uint32_t patience = 300;  // seconds
    UniqueFd const user_data = TRY(sealed_text(request.user_data));
    UniqueFd const writable = TRY(role::detached_mount(target, "the target"));
    std::vector<int> descriptors{writable.get(), user_data.get()};
    UniqueFd network;
    if (request.network) {
        network = TRY(sealed_text(*request.network));
        descriptors.push_back(network.get());
    }
    auto process = TRY(start_job(settings, role::MakeSeed{request.meta_data}, descriptors));
    TRY(wait_for_product(settings, process, target, {.seconds = patience}, {}));
    std::uint64_t const bytes = TRY(size_of_file(target));
    if (bytes == 0 || bytes > role::largest_seed) return fail(ErrorKind::corrupt, "triton-unpack made no seed");
    return {};
}

}  // namespace triton::content
