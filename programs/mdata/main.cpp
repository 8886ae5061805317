// mdata-get, mdata-list, mdata-put, mdata-delete: what a machine asks of its metadata, from inside.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/metadata/frame.h"
#include "lib/base/read_file.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/text/base64.h"
#include "lib/text/printable.h"

namespace triton::program {

namespace {

using metadata::Frame;

constexpr char socket_path[] = "/native/.zonecontrol/metadata.sock";
constexpr int most_silence = 90'000;  // milliseconds: the host waits for its own commands, which may take a minute
constexpr std::size_t most_value = 1 << 20;
constexpr std::size_t most_answer = 16 << 20;

/// Source: mdata-get(1M), "Exit status".
enum Exit : int { success = 0, not_found = 1, failed = 2, usage = 3 };

int say(std::string_view text, int code) {
    (void)write_all(STDERR_FILENO, std::string(text) + "\n");  // nobody to tell
    return code;
}

Result<UniqueFd> connect_to_host() {
    char const* const given = std::getenv("TRITON_METADATA_SOCKET");
    std::string const path = given ? given : socket_path;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return fail(ENAMETOOLONG, "connect to " + path);
    path.copy(address.sun_path, path.size());
    UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        return fail(errno, "connect to " + path);
    return socket;
}

/// Reads a line, without its end.
Result<std::string> read_line(int socket) {
    std::string line;
    char piece[4096];
    for (;;) {
        pollfd wait{socket, POLLIN, 0};
        int const ready = ::poll(&wait, 1, most_silence);
        if (ready == 0) return fail(ErrorKind::timeout, "the host does not answer");
        ssize_t const got = ready < 0 ? -1 : ::read(socket, piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, "read the host's answer");
        if (got == 0) return fail(ErrorKind::unavailable, "the host has closed the connection");
        line.append(piece, static_cast<std::size_t>(got));
        if (line.ends_with('\n')) break;
        if (line.size() > most_answer) return fail(ErrorKind::corrupt, "the host's answer has no end");
    }
    line.pop_back();
    return line;
}

Result<Frame> ask(Frame request) {
    UniqueFd const socket = TRY(connect_to_host());
    if (!write_all(socket.get(), "NEGOTIATE V2\n")) return fail(errno, "ask the host");
    if (TRY(read_line(socket.get())) != "V2_OK") return fail(ErrorKind::unsupported, "the host does not speak version 2");
    std::uint32_t id = 0;
    (void)::getrandom(&id, sizeof id, GRND_NONBLOCK);  // it tells answers apart, no more
    char text[9];
    (void)std::snprintf(text, sizeof text, "%08x", id);
    request.id = text;
    if (!write_all(socket.get(), metadata::frame_line(request))) return fail(errno, "ask the host");
    std::string const line = TRY(read_line(socket.get()));
    auto answer = line.starts_with("V2 ") ? metadata::parse_frame(std::string_view(line).substr(3)) : std::nullopt;
    if (!answer || answer->id != request.id) return fail(ErrorKind::corrupt, "the host's answer is damaged");
    return *std::move(answer);
}

/// Prints a value as its own line or lines.
int print(std::string text) {
    if (!text.ends_with('\n')) text += '\n';
    return write_all(STDOUT_FILENO, text) || errno == EPIPE ? success
                                                            : say("cannot write: " + errno_text(errno), failed);
}

int run_request(Frame request, std::string_view key, bool is_printed) {
    auto const answer = ask(std::move(request));
    if (!answer) return say("ERROR: " + answer.error().text(), failed);
    if (answer->word == "NOTFOUND") return say("No metadata for '" + text::printable(key) + "'", not_found);
    if (answer->word != "SUCCESS") return say("ERROR: " + text::printable(answer->payload), failed);
    if (!is_printed || (key.empty() && answer->payload.empty())) return success;
    return print(answer->payload);
}

int get(std::span<char* const> words) {
    return run_request({.id = {}, .word = "GET", .payload = words[0]}, words[0], true);
}

int list(std::span<char* const> /*words*/) { return run_request({.id = {}, .word = "KEYS", .payload = {}}, "", true); }

int put(std::span<char* const> words) {
    std::string value;
    if (words.size() > 1) {
        value = words[1];
    } else {
        if (::isatty(STDIN_FILENO) == 1) return say("mdata-put: no value, and standard input is a terminal", usage);
        auto read = read_standard_input(most_value);
        if (!read) return say("ERROR: " + read.error().text(), failed);
        value = *std::move(read);
    }
    std::string payload = text::encode_base64(words[0]) + " " + text::encode_base64(value);
    return run_request({.id = {}, .word = "PUT", .payload = std::move(payload)}, words[0], false);
}

int remove(std::span<char* const> words) {
    return run_request({.id = {}, .word = "DELETE", .payload = words[0]}, words[0], false);
}

struct Command {
    std::string_view name;
    std::string_view arguments;
    std::string_view description;
    std::size_t least;
    std::size_t most;
    int (*run)(std::span<char* const> words);
};
constexpr Command commands[] = {
    {"mdata-get", "KEY", "prints the value of a key of this machine's metadata", 1, 1, get},
    {"mdata-list", "", "prints the keys of this machine's metadata", 0, 0, list},
    {"mdata-put", "KEY [VALUE]", "sets a key; without a value it is standard input", 1, 2, put},
    {"mdata-delete", "KEY", "removes a key", 1, 1, remove},
};

std::string usage_of(Command const& command) {
    std::string text = "Usage: " + std::string(command.name);
    if (!command.arguments.empty()) text.append(" ").append(command.arguments);
    return text;
}

int run(std::string_view name, std::span<char* const> words) {
    name.remove_prefix(std::min(name.rfind('/') + 1, name.size()));
    for (Command const& command : commands) {
        if (command.name != name) continue;
        std::string_view const first = words.empty() ? "" : words.front();
        if (first == "--help" || first == "-h")
            return print(usage_of(command) + "\n" + std::string(command.description) +
                         ".\nExit codes: 0 done, 1 no such key, 2 it failed, 3 usage.");
        if (first == "--version") return print(std::string(name) + " " TRITON_VERSION);
        if (words.size() < command.least || words.size() > command.most) return say(usage_of(command), usage);
        return command.run(words);
    }
    return say("triton-mdata is called by the names mdata-get, mdata-list, mdata-put and mdata-delete", usage);
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    std::span<char* const> const words(argv, static_cast<std::size_t>(argc));
    return triton::program::run(words.empty() ? "" : words.front(), words.empty() ? words : words.subspan(1));
}
