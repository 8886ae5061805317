#include "sidecar/agent/ui.h"

#include <chrono>
#include <utility>

#include "lib/base/error_kinds.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/net/page_policy.h"
#include "page_bytes.h"

namespace triton::agent {

using net::HttpRequest;
using net::HttpResponse;
using net::Task;

namespace {

constexpr std::string_view json_media_type = "application/json";
constexpr Duration longest_wait = std::chrono::seconds(20);
constexpr Duration call_limit = std::chrono::seconds(10);
/// Nobody may store an answer.
constexpr std::string_view own_fields = "\r\nCache-Control: no-store";

std::string_view page_text() {
    return {reinterpret_cast<char const*>(page_bytes), sizeof page_bytes};  // bytes are text
}

HttpResponse with_fields(HttpResponse response) {
    response.fields = own_fields;
    return response;
}

HttpResponse json_response(std::string body) {
    HttpResponse response;
    response.type = json_media_type;
    response.body = std::move(body);
    response.body += '\n';
    return with_fields(std::move(response));
}

HttpResponse text(unsigned status, std::string_view words) {
    return with_fields(net::text_response(status, std::string(words)));
}

HttpResponse failure(Error const& error) {
    HttpResponse response = text(row_of(error.kind).http_status, error.text());
    response.asks_to_retry = response.status == 503;
    return response;
}

std::uint64_t microseconds_of_wall_clock() {
    using namespace std::chrono;
    return static_cast<std::uint64_t>(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
}

struct Counted {
    explicit Counted(std::size_t& counted) : count(counted) { ++count; }
    Counted(Counted const&) = delete;
    Counted& operator=(Counted const&) = delete;
    ~Counted() { --count; }
    std::size_t& count;
};

}  // namespace

Ui::Ui(net::Loop& loop, sidecar::control::ControlClient& control, log::Log& log, UiAccess access)
    : loop_(loop),
      control_(control),
      log_(log),
      access_(std::move(access)),
      page_(std::make_shared<std::string const>(page_text())),
      page_fields_(std::string(own_fields) + "\r\nContent-Security-Policy: " + net::page_policy(page_text()) +
                   "\r\nReferrer-Policy: no-referrer"),
      events_(microseconds_of_wall_clock()),
      grown_(loop) {}

void Ui::start() {
    if (!access_.is_possible() || !control_.has_launcher()) return;
    control_.keep_streaming(
        "org.tritonlaunch.Launcher.Subscribe", R"({"live":true})",
        [this](json::Node const& reply) {
            events_.add(reply);
            grown_.notify_all();
        },
        [this](Error const& /*why: it is tried again*/) { events_.note_break(); });
    control_.keep_streaming(
        "org.tritonlaunch.Launcher.WatchConfiguration", "{}",
        [this](json::Node const& reply) {
            configurations_.add(reply);
            configurations_text_.reset();
        },
        [](Error const& /*why: it is tried again*/) {});
}

void Ui::stop() {
    is_stopping_ = true;
    grown_.notify_all();
}

bool Ui::replace_token(std::string token) {
    bool const is_another = access_.replace_token(std::move(token));
    if (is_another) ++tokens_;
    grown_.notify_all();
    return is_another;
}

std::optional<UiRefusal> Ui::refusal_of(HttpRequest const& request) const {
    return access_.refusal_of({request.authorization, request.has_accepted_certificate});
}

Task<HttpResponse> Ui::answer(Endpoint endpoint, HttpRequest const& request) {
    if (endpoint == Endpoint::ui) co_return page();
    auto const refusal = refusal_of(request);
    if (refusal) co_return text(refusal->status, refusal->text);
    if (endpoint == Endpoint::ui_configuration) co_return configurations();
    if (endpoint == Endpoint::ui_events) co_return co_await events(request);
    if (endpoint == Endpoint::ui_logs) co_return co_await logs(request);
    if (endpoint == Endpoint::ui_command) co_return co_await command(request);
    co_return text(200, "OK");  // ui_session asks whether this client may
}

HttpResponse Ui::page() const {
    HttpResponse response;
    response.type = "text/html; charset=utf-8";
    response.shared_body = page_;
    response.fields = page_fields_;
    return response;
}

HttpResponse Ui::configurations() {
    if (!configurations_text_) configurations_text_ = std::make_shared<std::string const>(configurations_.text());
    HttpResponse response;
    response.type = json_media_type;
    response.shared_body = configurations_text_;
    return with_fields(std::move(response));
}

/// Waits a while for an event that the client does not know yet, so that nobody needs to ask often.
Task<HttpResponse> Ui::events(HttpRequest const& request) {
    auto const after = parse_ui_after(request.body);
    if (!after) co_return text(400, after.error());
    if (!events_.has_news_after(*after) && waiting_ < most_waiting) {
        Counted const counted(waiting_);
        auto const is_late = std::make_shared<bool>(false);
        std::uint64_t const let_in_by = tokens_;
        net::Timer limit(loop_);
        limit.call_at(std::chrono::steady_clock::now() + longest_wait, [this, is_late] {
            *is_late = true;
            grown_.notify_all();
        });
        request.caller->when_gone([this] { grown_.notify_all(); });
        while (!events_.has_news_after(*after) && !*is_late && !is_stopping_ && !request.caller->has_gone() &&
               let_in_by == tokens_)
            co_await grown_.wait();
        request.caller->when_gone({});
        if (auto const refusal = refusal_of(request)) co_return text(refusal->status, refusal->text);
    }
    co_return json_response(events_.text_after(*after));
}

Task<HttpResponse> Ui::logs(HttpRequest const& request) {
    auto wanted = parse_ui_logs(request.body);
    if (!wanted) co_return text(400, wanted.error());
    auto const replies = co_await call(std::move(*wanted), *request.caller);
    if (!replies) co_return failure(replies.error());
    co_return json_response(replies->empty() ? "{}" : json::Writer{}.value(replies->front()).text());
}

Task<HttpResponse> Ui::command(HttpRequest const& request) {
    auto wanted = parse_ui_command(request.body);
    if (!wanted) co_return text(400, wanted.error());
    log_.write(log::LogLevel::info, "ui-command", wanted->text, {{"peer", request.peer}});
    std::string why = wanted->not_alone;
    auto const replies = co_await call(std::move(*wanted), *request.caller);
    if (replies) co_return text(200, "OK");
    std::vector<std::string> const& others = replies.error().details;
    if (others.empty()) co_return failure(replies.error());
    for (std::string const& other : others)
        why.append(&other == others.data() ? "" : ", ").append(json::shown(other));
    co_return text(row_of(replies.error().kind).http_status, why);
}

Task<Result<std::vector<json::Node>>> Ui::call(UiCall wanted, net::HttpCaller& asker) {
    if (!control_.has_launcher()) co_return fail(ErrorKind::unsupported, "ask the launcher", "there is none");
    if (calls_ >= most_calls) co_return fail(ErrorKind::unavailable, "ask the launcher", "too many do already");
    Counted const counted(calls_);
    if (!wanted.may_take_long)
        co_return co_await control_.call(std::move(wanted.method), std::move(wanted.parameters), false, call_limit);
    // An agent that the launcher has not started is answered after the reload; all other calls would wait behind it.
    if (long_calls_ > 0) co_return fail(ErrorKind::unavailable, "ask the launcher", "a reload is under way");
    Counted const long_one(long_calls_);
    co_return co_await control_.call_alone(std::move(wanted.method), std::move(wanted.parameters), call_limit, asker);
}

}  // namespace triton::agent
