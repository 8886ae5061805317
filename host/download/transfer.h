#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/download/authorization.h"
#include "host/download/exchange.h"
#include "host/download/pipe_sink.h"
#include "host/role/download_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::download {

/// What all transfers share.
struct Surroundings {
    CURLM* multi = nullptr;
    Authorizations authorizations = {};
    std::string authorities = {};  ///< of the system, in PEM
};

/// One order of the library, with what came along.
struct Order {
    role::Download request;
    role::Credentials credentials;
    std::string authorities;  ///< in PEM; empty: those of the system
    UniqueFd pipe;
};

/// Carries out one order: asks the first URL, follows redirects, shows credentials to the host that they are for, and
/// turns to the next URL while no server has given a reportable answer.
///
///     asking --401--> asking the token service --> asking      (once for each host)
///     asking --3xx--> asking                                   (ten times; without credentials once the host is
///     another) asking --200, 206--> receiving --> done asking, receiving --anything else--> the next URL, or failed
class Transfer final : public Listener {
public:
    using Event = std::variant<role::Answer, role::Downloaded, role::DownloadFailed>;

    Transfer(Surroundings& surroundings, Order order);

    [[nodiscard]] std::uint32_t id() const { return order_.request.id; }
    void start();
    /// The exchange with this handle has ended.
    [[nodiscard]] bool owns(CURL const* handle) const { return exchange_ && exchange_->handle() == handle; }
    void on_ended(CURLcode code);
    /// Ends it at once, without giving the pipe what waits for it.
    void cancel();
    /// Gives the pipe what it has room for. Called after each round.
    void pump();
    /// To be waited for until it is writable; -1: none.
    [[nodiscard]] int waits_for_pipe() const { return sink_.is_empty() || sink_.is_broken() ? -1 : sink_.fd(); }

    /// The messages to the library, in this order.
    std::vector<Event> take_events() { return std::exchange(events_, {}); }
    /// Whether all were sent: the pipe may be closed.
    [[nodiscard]] bool is_over() const { return is_over_; }

    bool on_head(Head const& head) override;
    Taken on_body(std::string_view bytes) override;

private:
    struct Failure {
        ErrorKind kind = ErrorKind::internal;
        std::string reason;
        bool is_transient = false;
        std::uint32_t status = 0;
        std::optional<milliseconds> retry_after = {};
    };
    enum class Stage : std::uint8_t { content, token, delivering };

    [[nodiscard]] role::HostCredential const* credential() const;
    void begin_url();
    void ask();
    void ask_token(TokenRequest request);
    [[nodiscard]] Ask base_ask(Url url) const;
    [[nodiscard]] bool asks_for_range() const;
    [[nodiscard]] std::string range_text() const;

    bool accept_whole(Head const& head);
    bool accept_range(Head const& head);
    bool accept(std::uint64_t skip, std::optional<std::uint64_t> budget, role::Answer answer);
    [[nodiscard]] bool has_changed(Head const& head) const;
    bool stop(Failure failure);

    void finish_token(Ended const& ended);
    void finish_content(Ended const& ended);
    void on_redirect();
    void on_unauthorized();
    void fail_url(Failure failure);
    void tell_failure();

    Surroundings& surroundings_;
    Order order_;
    PipeSink sink_;
    std::unique_ptr<Exchange> exchange_;
    Stage stage_ = Stage::content;
    std::size_t url_index_ = 0;
    unsigned redirects_ = 0;
    Url url_;
    std::string first_authority_;  // of this URL of the order, before redirects
    std::string refused_by_;       // the authority that was shown what we have, in vain
    Head head_;
    std::string token_body_;
    std::uint64_t ignored_ = 0;  // bytes of an unwanted body
    std::uint64_t skip_ = 0;
    std::optional<std::uint64_t> budget_;  // bytes that are still to come; none: until the end
    std::uint64_t room_ = 0;               // bytes that may still come
    std::uint64_t taken_ = 0;
    std::optional<Failure> stopped_;  // why a callback has ended the exchange
    std::optional<Failure> failure_;  // the one that is reported in the end
    std::vector<Event> events_;
    bool has_answered_ = false;
    bool is_failing_ = false;  // what was taken goes into the pipe first
    bool is_over_ = false;
};

}  // namespace triton::download
