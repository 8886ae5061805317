// triton-download: our only program with access to a network. The importer of images starts it. It confines itself, and
// writes what it gets into pipes.

#include <csignal>
#include <cstdio>
#include <span>
#include <string>

#include "host/download/downloader.h"
#include "host/role/failed_message.h"
#include "host/role/sandbox.h"
#include "lib/base/clock.h"
#include "lib/base/read_file.h"

namespace {

using namespace triton;

constexpr std::size_t most_authority_bytes = 4 << 20;
constexpr char const* authorities_path = "/etc/ssl/certs/ca-certificates.crt";

/// Does what needs the host's files, and confines the process. Returns the authorities of the host.
Result<std::string> prepare(role::Started const& started) {
    // Done before the file system is gone: TLS reads its configuration, and we read the authorities, which a host may
    // not have.
    TRY(download::prepare());
    std::string authorities = read_file(authorities_path, most_authority_bytes).value_or("");
    // The resolver of libc reads these for each name; they hold no secrets.
    TRY(role::confine({.role = role::Role::download,
                       .readable = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf"},
                       .most_open_files = 256,
                       .most_threads = 128},  // one for each name that is being resolved
                      started));
    return authorities;
}

Result<> run(std::span<char* const> arguments) {
    role::Started started = TRY(role::take_over(role::Role::download, arguments));
    ::signal(SIGPIPE, SIG_IGN);  // when nobody reads a pipe, its transfer fails
    auto authorities = prepare(started);
    if (!authorities)
        return role::send(started.channel, role::failed(authorities.error()), steady_now() + std::chrono::seconds(30));
    download::Downloader downloader =
        TRY(download::Downloader::create(std::move(started.channel), *std::move(authorities)));
    return downloader.run();
}

}  // namespace

int main(int argc, char** argv) {
    auto const result = run({argv, static_cast<std::size_t>(argc)});
    if (result) return 0;
    std::fprintf(stderr, "triton-download: %s\n", result.error().text().c_str());
    return 1;
}
