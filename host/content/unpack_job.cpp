#include "host/content/unpack_job.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/content/role_wait.h"
#include "host/content/unpack_watch.h"
#include "host/role/detached_mount.h"
#include "lib/base/clock.h"

namespace triton::content {

namespace {

/// Makes the tree's root belong to an id of its range: otherwise the unpacker could not even list it.
Result<> own_target(int directory, role::IdRange const& ids) {
    struct stat status{};
    if (::fstat(directory, &status) != 0) return fail(errno, "look at the target directory");
    auto const is_within = [&ids](std::uint32_t id) { return id >= ids.first && id - ids.first < ids.count; };
    if (is_within(status.st_uid) && is_within(status.st_gid)) return {};
    if (::fchownat(directory, "", ids.first, ids.first, AT_EMPTY_PATH) != 0)
        return fail(errno, "change the owner of the target directory");
    return {};
}

std::optional<std::string> fault_of_tree(role::Unpacked const& unpacked, UnpackRequest const& request) {
    if (request.diff_id && unpacked.diff_id != *request.diff_id) return "the diffID is not what was asked for";
    if (unpacked.entries > request.limits.entries || unpacked.bytes > request.limits.bytes)
        return "more was unpacked than was asked for";
    return std::nullopt;
}

}  // namespace

Result<role::Unpacked> unpack(JobSettings const& settings, UnpackRequest const& request, int archive, int directory,
                              std::function<void(role::Unpacking const&)> const& progress) {
    TRY(own_target(directory, request.ids));
    UniqueFd const target = TRY(role::detached_mount(directory, "the target directory"));
    UniqueFd const lent = TRY(role::open_read_only_mount(archive, O_RDONLY, "the archive"));
    role::RoleSettings role_settings = settings.role;
    role_settings.ids = request.ids;
    auto process = TRY(role::RoleProcess::start(role::Role::unpack, role_settings));
    role::Unpack const job{.compression = request.compression,
                           .diff_id = request.diff_id,
                           .limits = request.limits,
                           .applies_whiteouts = request.applies_whiteouts};
    std::array const fds{lent.get(), target.get()};
    TRY(role::send(process.channel(), job, steady_now() + role_patience, fds));
    UnpackWatch watch(directory, request.limits);
    for (;;) {
        TRY(watch.wait(process, settings.cancel));
        role::Packet const packet = TRY(receive_from(process, steady_now() + role_patience, settings.cancel));
        auto const message = role::decode<role::Unpacking, role::Unpacked, role::Failed>(packet.text);
        if (!message) {
            process.kill();
            return std::unexpected(message.error());
        }
        if (auto const* const state = std::get_if<role::Unpacking>(&*message)) {
            TRY(watch.check_room());
            if (progress) progress(*state);
            continue;
        }
        if (auto const* const unpacked = std::get_if<role::Unpacked>(&*message))
            if (auto const fault = fault_of_tree(*unpacked, request)) return distrust(process, *fault);
        TRY(process.finish(end_deadline()));
        if (auto const* const failed = std::get_if<role::Failed>(&*message))
            return std::unexpected(role::error_of(*failed));
        return std::get<role::Unpacked>(*message);
    }
}

}  // namespace triton::content
