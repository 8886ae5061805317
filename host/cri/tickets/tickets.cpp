#include "host/cri/tickets/tickets.h"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/random.h>

namespace triton::cri {

namespace {

constexpr std::size_t token_bytes = 32;
constexpr std::size_t half_digits = token_bytes;

Result<std::string> random_token() {
    std::array<unsigned char, token_bytes> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        return fail(errno, "get random bytes");
    constexpr char digits[] = "0123456789abcdef";
    std::string token;
    for (unsigned char const byte : bytes)
        token.append({digits[byte >> 4U], digits[byte & 15U]});
    return token;
}

bool is_equal_in_constant_time(std::string_view left, std::string_view right) {
    if (left.size() != right.size()) return false;
    unsigned difference = 0;
    for (std::size_t i = 0; i < left.size(); ++i)
        difference |= static_cast<unsigned>(static_cast<unsigned char>(left[i]) ^ static_cast<unsigned char>(right[i]));
    return difference == 0;
}

}  // namespace

void Tickets::remove_expired(TimePoint now) {
    std::erase_if(tickets_, [now](auto const& one) { return one.second.expires <= now; });
}

Result<std::string> Tickets::issue(Ticket ticket, TimePoint now) {
    remove_expired(now);
    if (tickets_.size() >= most)
        return fail(ErrorKind::exhausted, std::to_string(most) + " requests wait for their clients already");
    std::string token = TRY(random_token());
    tickets_.insert_or_assign(token.substr(0, half_digits),
                              Waiting{token.substr(half_digits), now + lifetime, std::move(ticket)});
    return token;
}

std::optional<Ticket> Tickets::redeem(std::string_view token, monitor::Kind kind, TimePoint now) {
    remove_expired(now);
    auto const found = tickets_.find(token.substr(0, half_digits));
    if (found == tickets_.end()) return std::nullopt;
    Waiting waiting = std::move(found->second);
    tickets_.erase(found);
    bool const is_good =
        is_equal_in_constant_time(token.substr(half_digits), waiting.secret) && waiting.ticket.kind == kind;
    return is_good ? std::optional(std::move(waiting.ticket)) : std::nullopt;
}

}  // namespace triton::cri
