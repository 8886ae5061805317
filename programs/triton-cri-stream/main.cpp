// Serves the streams of commands, attached clients and forwarded ports for tritoncrid. It has no files, no network of
// its own and no rights: only the descriptors that it is handed.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <span>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/cri/stream/server.h"
#include "host/role/sandbox.h"

namespace triton::program {

namespace {

constexpr std::uint32_t most_open_files = 65'536;
constexpr std::uint64_t most_memory = 1ULL << 30;

Result<> run(std::span<char* const> arguments) {
    auto started = TRY(role::take_over(role::Role::stream, arguments));
    (void)::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of its descriptor
    auto const server = TRY(cri::stream::Server::create(UniqueFd{::fcntl(started.channel.fd(), F_DUPFD_CLOEXEC, 0)}));
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);  // it cannot get more than its starter has
    auto const open_files = static_cast<std::uint32_t>(std::min<std::uint64_t>(files.rlim_max, most_open_files));
    TRY(role::confine(
        {.role = role::Role::stream, .most_memory = most_memory, .most_open_files = open_files, .most_threads = 1},
        started));
    started.channel.close();
    return server->run();
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    auto const result = triton::program::run(std::span(argv, static_cast<std::size_t>(argc)));
    if (!result) (void)std::fprintf(stderr, "%s\n", result.error().text().c_str());
    // Not by exit(3): in the sandbox nothing is left to tidy up, and trying to would be killed.
    ::_exit(result ? 0 : 2);
}
