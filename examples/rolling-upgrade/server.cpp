// A small TCP server of which the example makes two versions: it answers each line with "VERSION PORT PID". In the file
// of its second argument it appends a line when it starts and one when it serves, so that nobody's start goes
// uncounted.
//
//     server PORT STARTS_FILE         VERSION is a macro of the build

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

constexpr std::size_t most_peers = 16;

[[noreturn]] void die(char const* what) {
    std::fprintf(stderr, "server %s: cannot %s: %s\n", VERSION, what, std::strerror(errno));
    std::exit(1);
}

/// One write, so that the lines of several servers do not mix.
void append(int file, char const* what, int port) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    std::array<char, 128> line{};
    int const size = std::snprintf(line.data(), line.size(), "%s %s %d %d %lld.%06ld\n", what, VERSION, port, getpid(),
                                   static_cast<long long>(now.tv_sec), now.tv_nsec / 1000);
    if (write(file, line.data(), static_cast<std::size_t>(size)) != size) die("count the start");
}

int listen_on(int port) {
    int const listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) die("make a socket");
    int const yes = 1;
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) die("set SO_REUSEADDR");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0) die("bind the port");
    if (listen(listener, SOMAXCONN) != 0) die("listen");
    return listener;
}

/// False when the peer is gone.
bool answer(int peer, int port) {
    std::array<char, 512> asked{};
    ssize_t const size = read(peer, asked.data(), asked.size());
    if (size <= 0) return false;
    std::array<char, 64> line{};
    auto const length =
        static_cast<std::size_t>(std::snprintf(line.data(), line.size(), "%s %d %d\n", VERSION, port, getpid()));
    for (ssize_t i = 0; i < size; ++i) {
        if (asked[static_cast<std::size_t>(i)] != '\n') continue;
        if (send(peer, line.data(), length, MSG_NOSIGNAL) != static_cast<ssize_t>(length)) return false;
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: server PORT STARTS_FILE\n");
        return 2;
    }
    int const port = std::atoi(argv[1]);
    int const starts = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (starts < 0) die("open the file of starts");
    append(starts, "start", port);
    std::array<pollfd, 1 + most_peers> all{};
    for (pollfd& one : all)
        one = {-1, POLLIN, 0};
    all[0].fd = listen_on(port);
    append(starts, "serve", port);
    std::printf("server %s serves port %d\n", VERSION, port);
    std::fflush(stdout);

    for (;;) {
        if (poll(all.data(), all.size(), -1) < 0) die("poll");
        for (std::size_t i = 1; i < all.size(); ++i) {
            if (all[i].revents == 0 || answer(all[i].fd, port)) continue;
            close(all[i].fd);
            all[i].fd = -1;
        }
        if (all[0].revents == 0) continue;
        int const peer = accept4(all[0].fd, nullptr, nullptr, SOCK_CLOEXEC);
        std::size_t place = 1;
        while (place < all.size() && all[place].fd >= 0)
            ++place;
        if (peer >= 0 && place < all.size())
            all[place].fd = peer;
        else if (peer >= 0)
            close(peer);
    }
}
