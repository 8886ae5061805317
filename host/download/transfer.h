#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
    /// Schemes and servers, of orders with settings, that no connection could be made to; and until when they are left
    /// out for that.
    std::map<std::string, TimePoint, std::less<>> unreachable = {};
};

/// One order of the library, with what came with it.
struct Order {
    role::Download request;
    role::Credentials credentials;
    std::string authorities;  ///< in PEM; empty: those of the system
    UniqueFd pipe;
};

/// Carries out one order: asks the first URL, follows redirects, shows credentials to their host only, and turns to the
/// next URL while no server has given an answer that can be reported. The plain form of a URL is left out when there is
/// HTTPS.
///
///     asking --401--> asking the token service --> asking      (once for each host)
///     asking --403, 404--> asking /v2/ --401--> as above       (once; a registry may hide what it has from strangers)
///     asking --3xx--> asking                                   (ten times; without credentials at another host)
///     asking --200, 206--> receiving --> done
///     asking, receiving --anything else--> the next URL, or failed
class Transfer final : public Listener {
public:
    using Event = std::variant<role::Answer, role::Downloaded, role::DownloadFailed>;

    Transfer(Surroundings& surroundings, Order order);

    [[nodiscard]] std::uint32_t id() const { return order_.request.id; }
    void start();
    /// Whether the exchange with this handle is its own.
    [[nodiscard]] bool owns(CURL const* handle) const { return exchange_ && exchange_->handle() == handle; }
    void on_ended(CURLcode code);
    /// Ends it at once, without writing what waits for the pipe.
    void cancel();
    /// Writes as much as the pipe takes. To be called after each round.
    void pump();
    /// The descriptor to wait for until it is writable; -1: none.
    [[nodiscard]] int waits_for_pipe() const { return sink_.is_empty() || sink_.is_broken() ? -1 : sink_.fd(); }

    /// The messages to the library, in this order.
    std::vector<Event> take_events() { return std::exchange(events_, {}); }
    /// Whether all messages were sent, and the pipe may be closed.
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
        bool lacks_https = false;     ///< nobody speaks TLS there
        bool is_unreachable = false;  ///< there was no connection
    };
    enum class Stage : std::uint8_t { content, challenge, token, delivering };

    [[nodiscard]] role::HostCredential const* credential() const;
    void begin_url();
    void leave_out_unreachable();
    void ask();
    void ask_token(TokenRequest request);
    [[nodiscard]] bool may_be_hidden() const;
    void ask_for_challenge(Failure failure);
    void finish_challenge(Ended const& ended);
    void begin(Ask ask);
    void on_token_redirect(std::string const& service);
    [[nodiscard]] Ask base_ask(Url url) const;
    void add_server_settings(Ask& ask) const;
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
    [[nodiscard]] Failure failure_of_status(Ended const& ended) const;
    [[nodiscard]] Failure failure_of_connection(Ended const& ended) const;
    void fail_url(Failure failure);
    /// Turns to the next URL that may be asked after such a failure. Returns whether there is one.
    bool next_url(bool lacks_https);
    void tell_failure();

    Surroundings& surroundings_;
    Order order_;
    PipeSink sink_;
    std::unique_ptr<Exchange> exchange_;
    Stage stage_ = Stage::content;
    std::size_t url_index_ = 0;
    unsigned redirects_ = 0;
    Url url_;
    std::string first_authority_;                   // of the current URL of the order, before redirects
    role::ServerSettings const* server_ = nullptr;  // of that URL; null: there are none
    std::string refused_by_;                        // the authority that has refused what we have
    bool is_authorized_ = false;                    // the last request for content has shown something
    std::optional<Failure> hidden_;  // what the registry has answered before it was asked for a challenge
    Head head_;
    TokenRequest token_request_;
    std::string token_body_;
    std::uint64_t ignored_ = 0;  // bytes of a body that is not wanted
    std::uint64_t skip_ = 0;
    std::optional<std::uint64_t> budget_;  // bytes still to come; none: until the end
    std::uint64_t room_ = 0;               // bytes that may still come
    std::uint64_t taken_ = 0;
    std::optional<Failure> stopped_;  // why a callback has ended the exchange
    std::optional<Failure> failure_;  // the one to report in the end
    std::vector<role::PassedOver> passed_over_;
    std::vector<Event> events_;
    bool has_answered_ = false;
    bool has_heard_ = false;   // the server of the current URL has answered, be it with an error
    bool is_failing_ = false;  // what was taken goes into the pipe before that
    bool is_over_ = false;
};

}  // namespace triton::download
