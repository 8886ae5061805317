#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "host/role/download_messages.h"
#include "host/role/process.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::content {

/// The companions of every download, in sealed memfds: never in a message.
struct DownloadSecrets {
    UniqueFd credentials;
    UniqueFd authorities;

    static Result<DownloadSecrets> make(role::Credentials const& credentials, std::string const& authorities);
};

/// The library's end of one triton-download, which is started when it is first needed. Nothing that it says is trusted.
class DownloadClient {
public:
    /// `Failed`: the downloader could not confine itself, or otherwise cannot work here; it has ended.
    using Event = std::variant<role::Answer, role::Downloaded, role::DownloadFailed, role::Failed>;

    explicit DownloadClient(role::RoleSettings settings) : settings_(std::move(settings)) {}

    /// A download that has begun: its id, which is chosen here, and the read end of the pipe that brings the bytes.
    /// Errors: those of RoleProcess::start().
    struct Started {
        std::uint32_t id;
        UniqueFd pipe;
    };
    Result<Started> start(role::Download download, DownloadSecrets const& secrets);
    /// Cancels a download. The downloader answers with a failure, unless it has answered already.
    void cancel(std::uint32_t id);
    /// Ends the process: all its pipes end.
    void stop() { process_.reset(); }

    /// For poll(2); -1: it does not run. Borrowed.
    [[nodiscard]] int fd() { return process_ ? process_->channel().fd() : -1; }
    /// The next event, if there is one. Errors: whatever ends the process; then all its downloads are gone, too.
    Result<std::optional<Event>> next();

private:
    role::RoleSettings settings_;
    std::optional<role::RoleProcess> process_;
    std::uint32_t last_id_ = 0;
};

}  // namespace triton::content
