#include <cerrno>
#include <string>

#include <unistd.h>

#include "host/network/inside.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"

namespace triton::program {

namespace {

constexpr std::size_t most_bytes = 4 << 20;

/// The places where systemd-nspawn looks for the init of an image that it boots.
constexpr char const* inits[] = {"/usr/lib/systemd/systemd", "/lib/systemd/systemd", "/sbin/init"};

Result<> set_up_network(std::string const& path) {
    std::string const text = TRY(read_file(path, most_bytes));
    network::Inside const inside = TRY(network::parse_inside(text, path));
    netlink::Socket socket = TRY(netlink::Socket::open());
    return network::set_up(inside, socket);
}

int say(std::string const& text) {
    (void)write_all(STDERR_FILENO, "triton-machine-init: " + text + "\n");  // nobody to tell
    return 1;
}

int become_init(char** arguments) {
    std::string tried;
    for (char const* const init : inits) {
        arguments[0] = const_cast<char*>(init);
        ::execv(init, arguments);
        if (errno != ENOENT) return say("cannot execute " + std::string(init) + ": " + errno_text(errno));
        tried += (tried.empty() ? "" : ", ") + std::string(init);
    }
    return say("the image has no init (tried: " + tried + ")");
}

/// triton-machine-init FILE [PROGRAM ARGUMENT...]: connects the machine to its network and becomes that program, or the
/// image's init.
int run(int count, char** arguments) {
    if (count < 2) return say("usage: triton-machine-init FILE [PROGRAM ARGUMENT...]");
    if (auto const done = set_up_network(arguments[1]); !done) return say(done.error().text());
    if (count == 2) {
        arguments[1] = nullptr;
        return become_init(arguments);
    }
    ::execv(arguments[2], arguments + 2);
    return say("cannot execute " + std::string(arguments[2]) + ": " + errno_text(errno));
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) { return triton::program::run(argc, argv); }
