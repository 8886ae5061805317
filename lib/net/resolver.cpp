#include "lib/net/resolver.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <ranges>

#include <ares.h>
#include <arpa/inet.h>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <netinet/in.h>
#include <sys/time.h>

#include "lib/base/digits.h"
#include "lib/base/duration.h"
#include "lib/base/read_file.h"

namespace triton::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t most_configuration_bytes = 64 << 10;

bool is_label(std::string_view label) {
    return !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
           std::ranges::all_of(label, [](char c) {
               return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
           });
}

/// The number behind `name` in an option such as "timeout:5", at most the limit.
std::optional<int> number_in(std::string_view option, std::string_view name, int most) {
    if (!option.starts_with(name)) return std::nullopt;
    option.remove_prefix(name.size());
    int number = 0;
    auto const [end, failed] = std::from_chars(option.data(), option.data() + option.size(), number);
    if (failed == std::errc::result_out_of_range) return most;
    if (failed != std::errc()) return std::nullopt;
    return std::clamp(number, 1, most);
}

std::optional<Address> to_address(ares_addrinfo_node const& node) {
    if (node.ai_family == AF_INET && node.ai_addrlen >= sizeof(sockaddr_in)) {
        sockaddr_in in{};
        std::memcpy(&in, node.ai_addr, sizeof in);
        return asio::ip::address_v4(ntohl(in.sin_addr.s_addr));
    }
    if (node.ai_family == AF_INET6 && node.ai_addrlen >= sizeof(sockaddr_in6)) {
        sockaddr_in6 in{};
        std::memcpy(&in, node.ai_addr, sizeof in);
        asio::ip::address_v6::bytes_type bytes{};
        std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
        return asio::ip::address_v6(bytes, in.sin6_scope_id);
    }
    return std::nullopt;
}

/// Describes a failure. c-ares does not distinguish a server that refuses or fails from one that is not there.
std::string reason(int status) {
    switch (status) {
        case ARES_ENOTFOUND: return "there is no such name";
        case ARES_ENODATA: return "the name has no address";
        case ARES_ETIMEOUT: return "no DNS server answers";
        case ARES_ECONNREFUSED: return "no DNS server can be reached and is able to answer";
        case ARES_ENOMEM: return errno_text(ENOMEM);
        default: return ::ares_strerror(status);
    }
}

}  // namespace

bool is_host_name(std::string_view text) {
    if (text.ends_with('.')) text.remove_suffix(1);
    if (text.empty() || text.size() > 253) return false;
    std::size_t const last = text.rfind('.') + 1;  // npos + 1 is 0
    if (std::ranges::all_of(text.substr(last), is_digit)) return false;
    return std::ranges::all_of(std::views::split(text, '.'), [](auto const& label) {
        return is_label(std::string_view(label.begin(), label.end()));
    });
}

ResolverPatience parse_patience(std::string_view resolv_conf) {
    ResolverPatience patience;
    auto const to_view = [](auto const& part) { return std::string_view(part.begin(), part.end()); };
    for (std::string_view const line : std::views::split(resolv_conf, '\n') | std::views::transform(to_view)) {
        constexpr std::string_view keyword = "options";
        constexpr std::string_view blanks = " \t\r";
        if (!line.starts_with(keyword)) continue;
        std::string_view rest = line.substr(keyword.size());
        if (rest.empty() || blanks.find(rest.front()) == blanks.npos) continue;
        while (!rest.empty()) {
            std::string_view const option = rest.substr(0, rest.find_first_of(blanks));
            if (auto const seconds = number_in(option, "timeout:", 30))
                patience.timeout = std::chrono::seconds(*seconds);
            if (auto const attempts = number_in(option, "attempts:", 5)) patience.attempts = *attempts;
            rest.remove_prefix(std::min(rest.size(), option.size() + 1));
        }
    }
    return patience;
}

/// Looks up one name with its own channel of c-ares. The functions that c-ares calls must not throw.
class Resolver::Lookup : public std::enable_shared_from_this<Lookup> {
public:
    explicit Lookup(Loop& io) : io_(io), wake_(io) {}
    ~Lookup() {
        if (channel_) ::ares_destroy(channel_);  // calls answered() and watch() once more
    }
    Lookup(Lookup const&) = delete;
    Lookup& operator=(Lookup const&) = delete;

    Result<> begin(std::string const& host, ResolverSettings const& settings) {
        auto const text = read_file(settings.configuration, most_configuration_bytes);
        if (!text && text.error().kind != ErrorKind::not_found) return std::unexpected(text.error());
        // c-ares does not read timeout and attempts in that file.
        ResolverPatience const patience = parse_patience(text ? *text : std::string());
        std::string path = settings.configuration;
        std::string lookups = "fb";  // files, then DNS: nsswitch.conf is not for us
        ares_options options{};
        options.flags = ARES_FLAG_NOALIASES;
        options.timeout = static_cast<int>(std::chrono::duration_cast<milliseconds>(patience.timeout).count());
        options.tries = patience.attempts;
        options.udp_port = options.tcp_port = settings.port;  // in host order, despite the manual page
        options.lookups = lookups.data();
        options.resolvconf_path = path.data();
        options.sock_state_cb = &Lookup::watch;
        options.sock_state_cb_data = this;
        int const status = ::ares_init_options(&channel_, &options,
                                               ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                                                   ARES_OPT_UDP_PORT | ARES_OPT_TCP_PORT | ARES_OPT_LOOKUPS |
                                                   ARES_OPT_RESOLVCONF | ARES_OPT_SOCK_STATE_CB);
        if (status != ARES_SUCCESS) return fail(reason(status));
        ares_addrinfo_hints hints{};
        hints.ai_family = AF_UNSPEC;
        hints.ai_socktype = SOCK_STREAM;
        ::ares_getaddrinfo(channel_, host.c_str(), nullptr, &hints, &Lookup::answered, this);
        return {};
    }

    /// Waits until something has happened, or until `deadline`.
    Task<void> wait(TimePoint deadline) {
        timeval next{};
        if (::ares_timeout(channel_, nullptr, &next)) {
            auto const left = std::chrono::seconds(next.tv_sec) + std::chrono::microseconds(next.tv_usec);
            // The time left is rounded down to a millisecond, and before it there is nothing to do.
            deadline = std::min(deadline, std::chrono::steady_clock::now() + left + milliseconds(1));
        }
        wake_.expires_at(deadline);
        error_code cancelled;
        co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
        ::ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }

    void end(int status) noexcept {
        if (!status_) status_ = status;
        wake_.cancel();
    }

    [[nodiscard]] std::optional<int> const& status() const { return status_; }
    std::vector<Address>& addresses() { return addresses_; }

private:
    /// A socket that belongs to c-ares.
    struct Socket {
        explicit Socket(Loop& io) : descriptor(io) {}
        asio::posix::stream_descriptor descriptor;  // not open: c-ares has closed it or is about to
        struct Side {
            bool is_wanted = false;
            bool is_awaited = false;
        } reading, writing;
    };

    static void answered(void* self, int status, int /*timeouts*/, ares_addrinfo* found) noexcept {
        auto& lookup = *static_cast<Lookup*>(self);
        try {
            for (auto const* node = found ? found->nodes : nullptr; node; node = node->ai_next) {
                if (auto const address = to_address(*node)) lookup.addresses_.push_back(*address);
            }
        } catch (std::bad_alloc const&) {
            status = ARES_ENOMEM;
        }
        if (found) ::ares_freeaddrinfo(found);
        lookup.end(status);
    }

    static void watch(void* self, ares_socket_t fd, int readable, int writable) noexcept {
        auto& lookup = *static_cast<Lookup*>(self);
        try {
            lookup.watch(fd, readable != 0, writable != 0);
        } catch (std::exception const&) {  // Asio and the standard library: no memory
            lookup.end(ARES_ENOMEM);
        }
    }

    void watch(int fd, bool readable, bool writable) {
        auto found = sockets_.find(fd);
        if (!readable && !writable) {
            if (found == sockets_.end()) return;
            (void)found->second->descriptor.release();  // c-ares closes it
            sockets_.erase(found);
            return;
        }
        if (found == sockets_.end()) {
            auto socket = std::make_shared<Socket>(io_);
            socket->descriptor.assign(fd);
            found = sockets_.emplace(fd, std::move(socket)).first;
        }
        found->second->reading.is_wanted = readable;
        found->second->writing.is_wanted = writable;
        listen(found->second, &Socket::reading);
        listen(found->second, &Socket::writing);
    }

    void listen(std::shared_ptr<Socket> const& socket, Socket::Side Socket::* side) {
        Socket::Side& one = (*socket).*side;
        if (!one.is_wanted || one.is_awaited) return;
        bool const reads = side == &Socket::reading;
        auto const what =
            reads ? asio::posix::stream_descriptor::wait_read : asio::posix::stream_descriptor::wait_write;
        socket->descriptor.async_wait(what, [weak = weak_from_this(), socket, side, reads](error_code failed) {
            ((*socket).*side).is_awaited = false;
            auto const self = weak.lock();
            if (!self || failed || !socket->descriptor.is_open()) return;
            int const fd = socket->descriptor.native_handle();
            ::ares_process_fd(self->channel_, reads ? fd : ARES_SOCKET_BAD, reads ? ARES_SOCKET_BAD : fd);
            if (socket->descriptor.is_open()) self->listen(socket, side);
            self->wake_.cancel();  // the next deadline may have changed
        });
        one.is_awaited = true;
    }

    Loop& io_;
    asio::steady_timer wake_;
    ares_channel channel_ = nullptr;
    std::map<int, std::shared_ptr<Socket>> sockets_;
    std::vector<Address> addresses_;
    std::optional<int> status_;
};

Resolver::Resolver(Loop& loop, ResolverSettings settings) : loop_(loop), settings_(std::move(settings)) {
    (void)::ares_library_init(ARES_LIB_INIT_ALL);  // only sets a flag, except on Windows
}

Resolver::~Resolver() {
    stop();
    ::ares_library_cleanup();
}

Task<Result<std::vector<Address>>> Resolver::resolve(std::string host) {
    if (auto const address = parse_address(host)) co_return std::vector{*address};
    std::string const failure = "cannot resolve " + host + ": ";
    if (is_stopped_) co_return fail(failure + reason(ARES_ECANCELLED));

    auto const lookup = std::make_shared<Lookup>(loop_);
    std::erase_if(lookups_, [](auto const& weak) { return weak.expired(); });
    lookups_.push_back(lookup);
    auto const begun = lookup->begin(host, settings_);
    if (!begun) co_return fail(failure + begun.error().text());
    TimePoint const deadline = std::chrono::steady_clock::now() + settings_.limit;
    while (!lookup->status()) {
        if (std::chrono::steady_clock::now() >= deadline)
            co_return fail(failure + "no answer within " + format_duration(settings_.limit));
        co_await lookup->wait(deadline);
    }
    int status = *lookup->status();
    if (status == ARES_SUCCESS && lookup->addresses().empty()) status = ARES_ENODATA;
    if (status != ARES_SUCCESS) co_return fail(failure + reason(status));
    co_return std::move(lookup->addresses());
}

void Resolver::stop() noexcept {
    is_stopped_ = true;
    for (auto const& weak : lookups_) {
        if (auto const lookup = weak.lock()) lookup->end(ARES_ECANCELLED);
    }
}

}  // namespace triton::net
