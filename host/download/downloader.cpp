#include "host/download/downloader.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/read_file.h"

namespace triton::download {

namespace {

constexpr std::size_t most_transfers = 64;
constexpr std::size_t most_authority_bytes = 4 << 20;
constexpr milliseconds patience = std::chrono::seconds(30);  // when sending a message to the library

TimePoint deadline() { return std::chrono::steady_clock::now() + patience; }

Result<Order> read_order(role::Download request, std::vector<UniqueFd> descriptors) {
    if (request.urls.empty()) return fail(ErrorKind::corrupt, "a download has no URL");
    if (request.length == 0U) return fail(ErrorKind::corrupt, "a download has an empty range");
    if (descriptors.size() != 3) return fail(ErrorKind::corrupt, "a download comes without its descriptors");
    std::string const text = TRY(read_sealed(descriptors[1].get(), role::most_credential_bytes));
    auto credentials = TRY(role::decode<role::Credentials>(text, role::most_credential_bytes));
    auto authorities = TRY(read_sealed(descriptors[2].get(), most_authority_bytes));
    return Order{.request = std::move(request),
                 .credentials = std::get<role::Credentials>(std::move(credentials)),
                 .authorities = std::move(authorities),
                 .pipe = std::move(descriptors[0])};
}

}  // namespace

Result<std::string> read_sealed(int fd, std::size_t limit) {
    constexpr int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    int const seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & wanted) != wanted) return fail(ErrorKind::corrupt, "a memfd is not sealed");
    if (::lseek(fd, 0, SEEK_SET) != 0) return fail(errno, "read a memfd");
    return read_open_file(fd, "memfd", limit);
}

Result<> prepare() {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return fail(ErrorKind::unavailable, "cannot prepare TLS");
    return {};
}

Result<Downloader> Downloader::create(role::Channel channel, std::string authorities) {
    std::unique_ptr<CURLM, CleanUp> multi(curl_multi_init());
    if (!multi) return fail(ErrorKind::unavailable, "out of memory");
    return Downloader(std::move(channel), std::move(multi), std::move(authorities));
}

Downloader::Downloader(role::Channel channel, std::unique_ptr<CURLM, CleanUp> multi, std::string authorities)
    : channel_(std::move(channel)),
      multi_(std::move(multi)),
      surroundings_(
          std::make_unique<Surroundings>(Surroundings{.multi = multi_.get(), .authorities = std::move(authorities)})) {}

Downloader::~Downloader() { transfers_.clear(); }

Result<> Downloader::run() {
    for (;;) {
        if (!TRY(take_order())) return {};
        drive();  // after the order, which may have failed at once: nothing would end the wait for that
        TRY(tell());
        TRY(wait());
    }
}

void Downloader::drive() {
    int running = 0;
    (void)curl_multi_perform(multi_.get(), &running);  // if anything fails, it is a transfer, handled below
    int left = 0;
    while (CURLMsg const* const message = curl_multi_info_read(multi_.get(), &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        CURL const* const handle = message->easy_handle;
        CURLcode const code = message->data.result;
        auto const found = std::ranges::find_if(transfers_, [&](auto const& each) { return each->owns(handle); });
        if (found != transfers_.end()) (*found)->on_ended(code);
    }
    for (auto const& transfer : transfers_)
        transfer->pump();
}

Result<> Downloader::tell() {
    for (auto const& transfer : transfers_) {
        for (Transfer::Event const& event : transfer->take_events())
            TRY(std::visit([&](auto const& message) { return role::send(channel_, message, deadline()); }, event));
    }
    std::erase_if(transfers_, [](auto const& transfer) { return transfer->is_over(); });
    return {};
}

Result<> Downloader::wait() {
    std::vector<curl_waitfd> waited{{.fd = channel_.fd(), .events = CURL_WAIT_POLLIN, .revents = 0}};
    for (auto const& transfer : transfers_) {
        if (int const pipe = transfer->waits_for_pipe(); pipe >= 0)
            waited.push_back({.fd = pipe, .events = CURL_WAIT_POLLOUT, .revents = 0});
    }
    // curl shortens this to its own timers. Without a timer nothing happens until a descriptor is ready.
    constexpr int longest = 60'000;
    if (curl_multi_poll(multi_.get(), waited.data(), static_cast<unsigned>(waited.size()), longest, nullptr) !=
        CURLM_OK)
        return fail(ErrorKind::internal, "wait for transfers", "curl_multi_poll failed");
    return {};
}

/// Takes one message, if there is one. Returns false when the library has closed the channel.
Result<bool> Downloader::take_order() {
    auto packet = channel_.receive(std::chrono::steady_clock::now(), 3);
    if (!packet && packet.error().kind == ErrorKind::timeout) return true;
    if (!packet && packet.error().kind == ErrorKind::unavailable) return false;
    if (!packet) return std::unexpected(packet.error());
    auto message = TRY((role::decode<role::Download, role::Cancel>(packet->text)));
    if (auto const* const order = std::get_if<role::Cancel>(&message)) {
        cancel(order->id);
        return true;
    }
    if (transfers_.size() >= most_transfers)
        return fail(ErrorKind::corrupt, "too many downloads at once are asked for");
    Order order = TRY(read_order(std::get<role::Download>(std::move(message)), std::move(packet->descriptors)));
    transfers_.push_back(std::make_unique<Transfer>(*surroundings_, std::move(order)));
    transfers_.back()->start();
    return true;
}

void Downloader::cancel(std::uint32_t id) {
    // A download that has ended by itself reports that instead.
    auto const found = std::ranges::find_if(transfers_, [&](auto const& each) { return each->id() == id; });
    if (found != transfers_.end() && !(*found)->is_over()) (*found)->cancel();
}

}  // namespace triton::download
