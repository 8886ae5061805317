#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lib/log/log.h"
#include "lib/net/http_server.h"
#include "lib/net/loop.h"
#include "sidecar/agent/routing.h"
#include "sidecar/agent/ui_access.h"
#include "sidecar/agent/ui_feed.h"
#include "sidecar/agent/ui_request.h"
#include "sidecar/control/control_client.h"

namespace triton::agent {

/// The page at /ui, and what it asks for beside /v1/status. The page itself says nothing of what runs here and is for
/// everybody who is let in; everything else is for those whom UiAccess lets through.
///
/// However many look at it, the launcher is listened to by two streams, and asked one thing at a time for each of
/// `most_calls` requests. One I/O thread.
class Ui {
public:
    static constexpr std::size_t most_calls = 8;     // of the launcher, under way
    static constexpr std::size_t most_waiting = 64;  // for events; others are answered at once

    Ui(net::Loop& loop, sidecar::control::ControlClient& control, log::Log& log, UiAccess access);
    Ui(Ui const&) = delete;
    Ui& operator=(Ui const&) = delete;

    /// Listens to the launcher, unless nobody may see its news.
    void start();
    /// `endpoint`: one of ours.
    net::Task<net::HttpResponse> answer(Endpoint endpoint, net::HttpRequest const& request);
    /// Answers those who wait.
    void stop();
    /// See UiAccess. Waiting clients with the previous one are refused.
    bool replace_token(std::string token);

private:
    net::HttpResponse page() const;
    [[nodiscard]] std::optional<UiRefusal> refusal_of(net::HttpRequest const& request) const;
    net::HttpResponse configurations();
    net::Task<net::HttpResponse> events(net::HttpRequest const& request);
    net::Task<net::HttpResponse> logs(net::HttpRequest const& request);
    net::Task<net::HttpResponse> command(net::HttpRequest const& request);
    net::Task<Result<std::vector<json::Node>>> call(UiCall wanted, net::HttpCaller& asker);

    net::Loop& loop_;
    sidecar::control::ControlClient& control_;
    log::Log& log_;
    UiAccess access_;
    net::HttpStream::Piece page_;
    std::string page_fields_;
    UiEvents events_;
    UiConfigurations configurations_;
    net::HttpStream::Piece configurations_text_;  // null: to be made
    net::Condition grown_;
    std::size_t waiting_ = 0;
    std::uint64_t tokens_ = 0;  // that there have been
    std::size_t calls_ = 0;
    std::size_t long_calls_ = 0;  // of these
    bool is_stopping_ = false;
};

}  // namespace triton::agent
