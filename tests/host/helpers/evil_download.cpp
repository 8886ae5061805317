// triton-download in an attacker's hands: it is not confined, speaks the protocol, and does what the path of the first
// URL says. The library has to come through it with an error, or with the right bytes.

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "host/role/download_messages.h"
#include "host/role/sandbox.h"
#include "lib/base/write_all.h"

namespace {

using namespace triton;
using namespace triton::role;

constexpr std::uint64_t size = 100'000;

TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(5); }

struct Victim {
    Channel& channel;
    Download order;
    UniqueFd pipe;

    void answer(std::uint64_t told = size) {
        (void)send(channel, Answer{.id = order.id, .status = 200, .length = told, .size = told}, soon());
    }
    void give(std::uint64_t count) { (void)write_all(pipe.get(), std::string(count, 'e')); }
    void done(std::uint64_t told = size) { (void)send(channel, Downloaded{.id = order.id, .bytes = told}, soon()); }
    void close() { pipe = UniqueFd(); }
};

[[noreturn]] void wait_for_the_end() {
    for (;;)
        ::pause();
}

using Attack = void (*)(Victim&);
struct Row {
    std::string_view name;
    Attack attack;
};
constexpr Row attacks[] = {
    {"lies-about-the-digest", [](Victim& v) { v.answer(), v.give(size), v.close(), v.done(); }},
    {"writes-after-done", [](Victim& v) { v.answer(), v.give(size), v.done(), v.give(size); }},
    {"gives-more", [](Victim& v) { v.answer(), v.give(2 * size), v.close(), v.done(2 * size); }},
    {"gives-less", [](Victim& v) { v.answer(), v.give(10), v.close(), v.done(); }},
    {"says-nothing-and-gives", [](Victim& v) { v.give(size), v.close(), v.done(); }},
    {"answers-twice", [](Victim& v) { v.answer(), v.answer(7), v.give(size), v.close(), v.done(); }},
    {"is-done-twice", [](Victim& v) { v.answer(), v.give(size), v.close(), v.done(), v.done(), v.done(); }},
    {"of-another", [](Victim& v) { v.order.id += 1000, v.answer(), v.done(), std::exit(0); }},
    {"other-size", [](Victim& v) { v.answer(size * 7), v.give(size), v.close(), v.done(); }},
    {"huge-size", [](Victim& v) { v.answer(INT64_MAX), v.close(), v.done(); }},
    {"exits", [](Victim&) { std::exit(3); }},
    {"crashes", [](Victim&) { __builtin_trap(); }},
    {"nonsense", [](Victim& v) { (void)v.channel.send("\xff{]", {}, soon()), wait_for_the_end(); }},
    {"unknown-message",
     [](Victim& v) { (void)v.channel.send(R"({"open":{"path":"/etc/shadow"}})", {}, soon()), wait_for_the_end(); }},
    {"descriptors",
     [](Victim& v) {
         UniqueFd const file{::open("/dev/null", O_RDWR | O_CLOEXEC)};
         (void)send(v.channel, Answer{.id = v.order.id, .status = 200}, soon(), std::array{file.get()});
         wait_for_the_end();
     }},
    {"floods",
     [](Victim& v) {
         for (int i = 0; i < 20'000; ++i)
             if (!send(v.channel, Downloaded{.id = 4'000'000'000, .bytes = 1}, soon())) break;
         std::exit(0);
     }},
    {"escape-in-the-reason",
     [](Victim& v) {
         v.close();
         (void)send(
             v.channel,
             DownloadFailed{.id = v.order.id, .kind = ErrorKind::not_found, .reason = "\x1b[2J\nstored: all is well"},
             soon());
     }},
    {"transient-for-ever",
     [](Victim& v) {
         v.close();
         (void)send(v.channel,
                    DownloadFailed{.id = v.order.id,
                                   .kind = ErrorKind::unavailable,
                                   .reason = "later",
                                   .is_transient = true,
                                   .retry_after_milliseconds = 1},
                    soon());
     }},
    {"far-future",
     [](Victim& v) {
         v.close();
         (void)send(v.channel,
                    DownloadFailed{.id = v.order.id,
                                   .kind = ErrorKind::busy,
                                   .reason = "later",
                                   .is_transient = true,
                                   .retry_after_milliseconds = INT64_MAX},
                    soon());
     }},
    {"holds-the-pipe", [](Victim& v) { v.answer(), v.give(10), v.done(), wait_for_the_end(); }},
    {"is-silent", [](Victim&) { wait_for_the_end(); }},
};

int run(std::span<char* const> arguments) {
    ::signal(SIGPIPE, SIG_IGN);
    auto started = take_over(Role::download, arguments);
    if (!started) return 1;
    std::vector<Victim> held;  // pipes that are never closed
    for (;;) {
        auto packet = started->channel.receive(std::chrono::steady_clock::now() + std::chrono::hours(1), 3);
        if (!packet) return 0;
        auto message = decode<Download, Cancel>(packet->text);
        if (!message || !std::holds_alternative<Download>(*message)) continue;
        Victim victim{started->channel, std::get<Download>(*message), std::move(packet->descriptors[0])};
        std::string_view const url = victim.order.urls[0];
        for (Row const& row : attacks)
            if (url.ends_with(row.name)) row.attack(victim);
        held.push_back(std::move(victim));
    }
}

}  // namespace

int main(int argc, char** argv) { return run({argv, static_cast<std::size_t>(argc)}); }
