// A role in an attacker's hands, seen from the library: by the name of triton-verify or triton-unpack it takes its job
// and then lies. Which lie is what the job expects: its maximum (triton-verify), its limit of entries (triton-unpack).

#include <array>
#include <csignal>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/role/sandbox.h"
#include "host/role/unpack_messages.h"
#include "host/role/verify_messages.h"

namespace {

using namespace triton;
using namespace triton::role;

TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

constexpr std::string_view good_digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::string_view bad_digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

std::string verified(std::uint64_t size, std::string_view digest) {
    return R"({"verified":{"size":)" + std::to_string(size) + R"(,"digest":")" + std::string(digest) + R"("}})";
}
std::string unpacked(std::uint64_t entries, std::string_view digest) {
    return R"({"unpacked":{"entries":)" + std::to_string(entries) + R"(,"bytes":0,"diffId":")" + std::string(digest) +
           R"(","skippedDevices":0,"skippedAttributes":0,"hasWhiteoutNames":false}})";
}

void say(Channel& channel, std::string_view text, std::size_t descriptors = 0) {
    int const null = ::open("/dev/null", O_RDONLY);
    std::array<int, 16> fds{};
    fds.fill(null);
    (void)channel.send(text, std::span(fds).first(descriptors), soon());
}

void say_too_much(Channel& channel) {
    std::string const text(100'000, ' ');
    (void)::send(channel.fd(), text.data(), text.size(), 0);
}

void flood(Channel& channel, std::string_view text) {
    for (int i = 0; i < 100'000; ++i)
        if (!channel.send(text, {}, soon())) return;
}

/// Tries to change the files of the host that it was handed, and fails with all the errors that it got.
void change_files(Channel& channel, std::span<UniqueFd const> files) {
    std::string errors;
    auto const note = [&errors](int result) { errors += result == 0 ? "changed " : errno_text(errno) + " "; };
    for (int const fd : {STDIN_FILENO, STDOUT_FILENO, files.front().get()}) {
        struct stat status{};
        (void)::fstat(fd, &status);
        note(::fchmod(fd, status.st_mode & 07777));
        note(::fchown(fd, status.st_uid, status.st_gid));
    }
    say(channel, R"({"failed":{"kind":"refused","attempted":"","reason":")" + errors + R"(","details":[]}})");
}

/// The lies that any role may tell.
void lie(Channel& channel, std::uint64_t which, std::span<UniqueFd const> files) {
    switch (which) {
        case 1000: return;  // ends without a word
        case 1001: __builtin_trap();
        case 1002: say(channel, "nonsense"); return;
        case 1003: say_too_much(channel); return;
        case 1004: say(channel, R"({"range":{"id":1,"offset":0}})"); return;  // a message of the library's
        case 1005: say(channel, R"({"verified":{"size":-1,"digest":"x"}})"); return;
        case 1006: say(channel, verified(0, good_digest), 3); return;  // with descriptors that nobody wants
        case 1007: say(channel, verified(0, bad_digest)); return;
        case 1008: say(channel, verified(1ULL << 40, good_digest)); return;
        case 1009:
            say(channel,
                R"({"failed":{"kind":"corrupt","attempted":"","reason":"\u001b[2Jowned\u0007","details":[]}})");
            return;
        case 1010:
            say(channel, R"({"landed":{"intervals":[{"offset":5,"length":5},{"offset":0,"length":5}],"bytes":10}})");
            return;
        case 1011:
            say(channel, R"({"landed":{"intervals":[{"offset":0,"length":9223372036854775807}],"bytes":1}})");
            return;
        case 1012: say(channel, R"({"rangeEnded":{"id":77,"received":0}})"); return;
        case 1013: say(channel, R"({"rangeEnded":{"id":1,"received":4000}})"); return;
        case 1014: flood(channel, R"({"landed":{"intervals":[],"bytes":0}})"); return;
        case 1015:
            say(channel, verified(0, good_digest));
            ::pause();
            return;  // never ends
        case 1016:
            say(channel,
                R"({"checkedDocument":{"size":0,"digest":")" + std::string(good_digest) + R"(","mediaType":""}})");
            return;
        case 1017: {
            int const open = ::memfd_create("open", MFD_ALLOW_SEALING);
            (void)channel.send(
                R"({"checkedDocument":{"size":0,"digest":")" + std::string(good_digest) + R"(","mediaType":""}})",
                std::span(&open, 1), soon());
            return;
        }
        case 1018: {
            int const large = ::memfd_create("large", MFD_ALLOW_SEALING);
            (void)::ftruncate(large, 1 << 30);
            ::fcntl(large, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
            (void)channel.send(
                R"({"checkedDocument":{"size":0,"digest":")" + std::string(good_digest) + R"(","mediaType":""}})",
                std::span(&large, 1), soon());
            return;
        }
        case 1020: say(channel, unpacked(0, bad_digest)); return;
        case 1021: say(channel, unpacked(5000, good_digest)); return;
        case 1024: ::pause(); return;  // never answers
        case 1023:
            // with all capabilities in its user namespace, which root's id is in
            change_files(channel, files);
            return;
        case 1022: flood(channel, R"({"unpacking":{"read":0,"entries":0,"bytes":0}})"); return;
        default: ::_exit(9);
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::string const name = argv[0];
    Role const role = name == "triton-unpack" ? Role::unpack : Role::verify;
    auto started = take_over(role, std::span(argv, static_cast<std::size_t>(argc)));
    if (!started) ::_exit(3);
    auto const packet = started->channel.receive(soon(), 3);
    if (!packet) ::_exit(4);
    std::uint64_t which = 0;
    if (auto const job = decode<Receive, Check, ReadDocument, Unpack>(packet->text)) {
        if (auto const* const receive = std::get_if<Receive>(&*job)) which = receive->expected.maximum;
        if (auto const* const check = std::get_if<Check>(&*job)) which = check->expected.maximum;
        if (auto const* const document = std::get_if<ReadDocument>(&*job)) which = document->expected.maximum;
        if (auto const* const unpack = std::get_if<Unpack>(&*job)) which = unpack->limits.entries;
    }
    lie(started->channel, which, packet->descriptors);
    ::_exit(0);
}
