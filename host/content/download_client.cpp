#include "host/content/download_client.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>

#include "lib/base/clock.h"
#include "lib/base/pipe.h"
#include "lib/base/write_all.h"

namespace triton::content {

namespace {

constexpr milliseconds patience = std::chrono::seconds(30);
constexpr milliseconds end_patience = std::chrono::seconds(2);  // between the end of its channel and its own
/// The pipe is small, because what is in it when we are killed is lost.
constexpr int pipe_bytes = 256 * 1024;

Result<UniqueFd> sealed_memfd(char const* name, std::string_view content) {
    UniqueFd fd{::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (!fd || !write_all(fd.get(), content) ||
        ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return fail(errno, "prepare a download");
    return fd;
}

}  // namespace

Result<DownloadSecrets> DownloadSecrets::make(role::Credentials const& credentials, std::string const& authorities) {
    UniqueFd known = TRY(sealed_memfd("credentials", role::encode(credentials)));
    UniqueFd trusted = TRY(sealed_memfd("authorities", authorities));
    return DownloadSecrets{.credentials = std::move(known), .authorities = std::move(trusted)};
}

Result<DownloadClient::Started> DownloadClient::start(role::Download download, DownloadSecrets const& secrets) {
    if (!process_) process_ = TRY(role::RoleProcess::start(role::Role::download, settings_));
    auto [reader, writer] = TRY(make_pipe());
    (void)::fcntl(writer.get(), F_SETPIPE_SZ, pipe_bytes);  // a limit of the user may forbid it; it is only faster
    download.id = ++last_id_;
    std::array const descriptors{writer.get(), secrets.credentials.get(), secrets.authorities.get()};
    auto const sent = role::send(process_->channel(), download, steady_now() + patience, descriptors);
    if (!sent && sent.error().kind != ErrorKind::unavailable) return std::unexpected(sent.error());  // next() says why
    return Started{download.id, std::move(reader)};
}

void DownloadClient::cancel(std::uint32_t id) {
    // A downloader that does not listen is ended by next(), or because it is silent.
    if (process_) (void)role::send(process_->channel(), role::Cancel{id}, steady_now() + patience);
}

Result<std::optional<DownloadClient::Event>> DownloadClient::next() {
    if (!process_) return std::nullopt;
    auto packet = process_->channel().receive(steady_now());
    if (!packet && packet.error().kind == ErrorKind::timeout) return std::nullopt;
    if (!packet && packet.error().kind == ErrorKind::corrupt) {
        process_.reset();
        return fail(ErrorKind::corrupt, "triton-download sent an unexpected message: " + packet.error().text());
    }
    if (!packet) {
        auto const ended = process_->finish(steady_now() + end_patience);
        process_.reset();
        if (!ended) return std::unexpected(ended.error());
        return fail(ErrorKind::unavailable, "triton-download has ended");
    }
    auto event = role::decode<role::Answer, role::Downloaded, role::DownloadFailed, role::Failed>(packet->text);
    if (!event || std::holds_alternative<role::Failed>(*event)) process_.reset();
    if (event) return *std::move(event);
    return fail(ErrorKind::corrupt, "triton-download sent an unexpected message: " + event.error().text());
}

}  // namespace triton::content
