#include "programs/vminfod/service.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <unistd.h>

#include "host/info/agenda.h"
#include "host/info/cache.h"
#include "host/info/feed.h"
#include "host/info/query.h"
#include "host/info/reader.h"
#include "host/machine/uuid.h"
#include "lib/base/error_kinds.h"
#include "lib/net/accept.h"
#include "lib/net/http_server.h"
#include "lib/net/page_policy.h"
#include "lib/net/turns.h"
#include "lib/text/printable.h"
#include "programs/vminfod/awaited.h"
#include "programs/vminfod/event_options.h"
#include "programs/vminfod/event_streams.h"
#include "programs/vminfod/open_history.h"
#include "programs/vminfod/page.h"
#include "programs/vminfod/request_text.h"
#include "programs/vminfod/routes.h"

namespace triton::program {

using info::DocumentPtr;
using info::Text;
using info::View;
using net::HttpRequest;
using net::HttpResponse;
using net::HttpStream;
using net::Task;

namespace {

constexpr std::string_view json_type = "application/json";
constexpr std::string_view lines_type = "application/x-ndjson";
constexpr std::string_view events_type = "text/event-stream";
constexpr std::string_view page_type = "text/html; charset=utf-8";
constexpr std::size_t step_bytes = 64 * 1024;  // of one step of a long answer
constexpr std::size_t machines_in_step = 128;  // looked at in one step
constexpr milliseconds time_of_step{5};        // conditions may be expensive
constexpr std::size_t lines_in_step = 256;     // of the history
constexpr long most_histories = 16;            // that go out at once by TCP
constexpr std::size_t most_fresh = 256;        // waiting for a fresh look

Text shared(std::string_view text) { return std::make_shared<std::string const>(text); }

HttpResponse shared_response(std::string_view type, Text body, std::string_view tail = {}) {
    HttpResponse response;
    response.type = type;
    response.shared_body = std::move(body);
    response.tail = tail;
    return response;
}

HttpResponse failed(Error const& error) {
    HttpResponse response = net::text_response(row_of(error.kind).http_status, error.text());
    response.asks_to_retry = response.status == 503;
    return response;
}

/// The memory of this process. Source: proc(5), /proc/[pid]/statm.
std::uint64_t resident_bytes() {
    unsigned long pages = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "re");
    if (!file) return 0;
    if (std::fscanf(file, "%*u %lu", &pages) != 1) pages = 0;
    (void)std::fclose(file);
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

class Service::Impl : public std::enable_shared_from_this<Impl> {
public:
    Impl(ServiceSettings settings, Surroundings around)
        : settings_(std::move(settings)),
          around_(around),
          router_(endpoint_routes()),
          page_(shared(page())),
          page_fields_("\r\nContent-Security-Policy: " + net::page_policy(page()) + "\r\nReferrer-Policy: no-referrer"),
          turns_(around_.loop),
          events_(
              std::make_shared<EventStreams>(EventStreams::Settings{settings_.now, settings_.heartbeat,
                                                                    settings_.snapshot_limit, settings_.snapshot_turn},
                                             around_.loop, around_.cache, around_.feed)) {}

    /// Not part of the constructor, because the servers share this object.
    Result<> open() {
        for (Door& door : doors_) {
            net::HttpServer::Surroundings needs{
                .loop = around_.loop,
                .router = router_,
                .answer = [self = shared_from_this(),
                           &door](HttpRequest const& request) { return self->answer(door, request); },
                .answered = [self = shared_from_this()](
                                std::size_t route,
                                unsigned status) { ++self->requests_[{endpoint_of(route), status}]; },
                .figures = door.figures,
                .log = around_.log,
                .idle = {},
            };
            auto server = net::HttpServer::create(http_settings(), std::move(needs));
            if (!server) return std::unexpected(server.error());
            door.server.emplace(std::move(*server));
        }
        return {};
    }
    /// Breaks the circle between the servers, which share this object, and this object, which owns them.
    void close() {
        for (Door& door : doors_) {
            if (door.server) door.server->stop([] {});
            door.server.reset();
        }
    }

    Result<> listen(UniqueFd socket, Entrance entrance) {
        return doors_[static_cast<std::size_t>(entrance)].server->listen(std::move(socket));
    }

    void feed_has_grown() { events_->feed_has_grown(); }

    void stop(std::function<void()> stopped) {
        auto const left = std::make_shared<std::size_t>(doors_.size());
        for (Door& door : doors_) {
            door.server->stop([left, stopped] {
                if (--*left == 0) stopped();
            });
        }
    }

private:
    /// One entrance, with the limits that only its own clients share.
    struct Door {
        Entrance entrance;
        net::HttpFigures figures = {};
        std::optional<net::HttpServer> server = {};
    };

    [[nodiscard]] net::HttpSettings http_settings() const {
        net::HttpSettings http;
        http.limits.connections = settings_.streams + 400;
        http.limits.streams = settings_.streams;
        http.limits.body_bytes = 4096;                      // nobody needs any
        http.limits.answers_of_peer = http.limits.answers;  // by TCP any user has as many addresses as he likes
        http.unknown_path = "Unsupported URL Path";
        // Pages of other origins must not see an answer, not even as a script or an image.
        http.fields = "\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin";
        return http;
    }

    [[nodiscard]] View view_of(Door const& door) const {
        bool const sees_all = door.entrance == Entrance::unix_socket || settings_.has_open_secrets;
        return sees_all ? View::full : View::open;
    }

    /// Refuses pages of other servers, which may reach the TCP port through a browser on this host.
    [[nodiscard]] std::optional<HttpResponse> refusal_of(Door const& door, HttpRequest const& request) const {
        if (door.entrance == Entrance::unix_socket) return std::nullopt;
        if (!is_own_host(request.host, settings_.served_host)) return net::text_response(403, "Host is not localhost");
        if (!is_own_origin(request.origin, settings_.served_host))
            return net::text_response(403, "Origin is not localhost");
        return std::nullopt;
    }

    Task<HttpResponse> answer(Door& door, HttpRequest const& request) {
        if (auto refusal = refusal_of(door, request)) co_return std::move(*refusal);
        switch (endpoint_of(request.match.route)) {
            case Endpoint::page: co_return page_response();
            case Endpoint::ping: co_return shared_response(json_type, pong_, "\n");
            case Endpoint::status: co_return status(door, request);
            case Endpoint::metrics: co_return metrics(request);
            case Endpoint::data: co_return data(door);
            case Endpoint::events: co_return events(door, request);
            case Endpoint::machine: break;
            case Endpoint::machines: co_return co_await machines(door, request);
            case Endpoint::history: co_return co_await history(door, request);
            case Endpoint::usage: co_return co_await usage();
            case Endpoint::none: co_return net::text_response(404, "Unsupported URL Path");
        }
        if (request.query.empty()) co_return machine(door, request.match.path);
        co_return co_await machine_with_query(door, request);
    }

    HttpResponse page_response() const {
        HttpResponse response = shared_response(page_type, page_);
        response.fields = page_fields_;
        return response;
    }

    // --- machines

    HttpResponse machine(Door const& door, std::string const& name) const {
        auto const uuid = machine::parse_uuid(name);
        if (!uuid) return failed(uuid.error());
        DocumentPtr const document = around_.cache.find(uuid->text());
        if (!document) return net::text_response(404, "VM Not Found: " + uuid->text());
        return shared_response(json_type, document->text(view_of(door)), "\n");
    }

    Task<HttpResponse> machine_with_query(Door& door, HttpRequest const& request) {
        auto const parameters = parse_parameters(request.query);
        if (!parameters) co_return failed(parameters.error());
        auto const known = check_keys(*parameters, {"fresh"});
        if (!known) co_return failed(known.error());
        std::string const name = request.match.path;
        auto const uuid = machine::parse_uuid(name);
        if (!uuid) co_return failed(uuid.error());
        std::optional<Uuid> const which = *uuid;
        auto const looked = co_await look_again_if_asked(door, *parameters, which);
        if (!looked) co_return failed(looked.error());
        co_return machine(door, name);
    }

    /// Errors: denied; unavailable: too many wait already; timeout; those of the daemon.
    Task<Result<>> look_again_if_asked(Door const& door, std::vector<Parameter> const& parameters,
                                       std::optional<Uuid> const& which) {
        auto const asked = flag_of(parameters, "fresh");
        if (!asked) co_return std::unexpected(asked.error());
        if (!*asked) co_return Result<>();
        if (door.entrance != Entrance::unix_socket) co_return fail(ErrorKind::denied, "fresh needs the Unix socket");
        if (fresh_ >= most_fresh) co_return fail(ErrorKind::unavailable, "too many wait for a fresh look");
        ++fresh_;
        struct End {
            std::size_t& count;
            ~End() { --count; }
        };
        End const end{fresh_};
        auto const awaited = make_awaited<void>(around_.loop, settings_.fresh_limit, "a fresh look");
        around_.daemon.look_again(which, [awaited](Result<> found) { awaited->bring(std::move(found)); });
        Result<> found = co_await arrival(awaited);
        co_return found;
    }

    Task<HttpResponse> machines(Door& door, HttpRequest const& request) {
        auto const parameters = parse_parameters(request.query);
        if (!parameters) co_return failed(parameters.error());
        std::optional<Uuid> const all;
        auto const looked = co_await look_again_if_asked(door, *parameters, all);
        if (!looked) co_return failed(looked.error());
        info::Query::Pairs pairs;
        for (Parameter const& parameter : *parameters)
            pairs.emplace_back(parameter.key, parameter.value);
        constexpr std::array<std::string_view, 1> others{"fresh"};
        auto query = info::Query::parse(pairs, view_of(door), others);
        if (!query) co_return failed(query.error());
        auto const wanted = std::make_shared<info::Query const>(std::move(*query));
        co_return stream_of(door, [wanted](DocumentPtr const& document) -> Text {
            return wanted->matches(*document) ? wanted->text(*document) : nullptr;
        });
    }

    HttpResponse data(Door const& door) {
        if (view_of(door) != View::full) return net::text_response(403, "/data needs the Unix socket");
        return stream_of(door, [self = shared_from_this()](DocumentPtr const& document) {
            return shared(self->around_.daemon.raw(document->name()));
        });
    }

    /// Returns what is shown of a machine; null: nothing.
    using Show = std::function<Text(DocumentPtr const& document)>;

    /// Streams all machines. Its steps take turns with those of the other entrance, not by peer, since any user has as
    /// many addresses as he likes.
    HttpResponse stream_of(Door const& door, Show show) {
        HttpResponse response;
        response.type = json_type;
        response.stream = [self = shared_from_this(), show = std::move(show),
                           peer = std::string(name_of(door.entrance))](HttpStream& out) {
            return self->send_machines(out, show, peer);
        };
        return response;
    }

    /// Sends a JSON array, made step by step from what the cache has at that time: so only one step is kept in memory
    /// for a peer that does not read. Each machine is shown as it was at some time between question and answer.
    Task<> send_machines(HttpStream& out, Show const& show, std::string const& peer) {
        std::string last;  // the last machine looked at
        bool is_first = true;
        for (bool goes_on = true; goes_on;) {
            std::vector<Text> pieces;
            if (last.empty()) pieces.push_back(array_begin_);
            goes_on = add_machines(pieces, show, last, is_first);
            if (!goes_on) pieces.push_back(array_end_);
            bool const is_taken = co_await out.write(pieces);
            if (!is_taken) co_return;
            if (goes_on) co_await turns_.take(peer);
        }
    }

    /// Returns whether there are more machines.
    bool add_machines(std::vector<Text>& pieces, Show const& show, std::string& last, bool& is_first) const {
        auto const& all = around_.cache.all();
        auto next = last.empty() ? all.begin() : all.upper_bound(last);
        std::size_t size = 0;
        TimePoint const end = std::chrono::steady_clock::now() + time_of_step;
        for (std::size_t looked = 0; next != all.end() && looked < machines_in_step && size < step_bytes;
             ++next, ++looked) {
            if (looked > 0 && std::chrono::steady_clock::now() >= end) break;
            last = next->first;
            Text text = show(next->second);
            if (!text) continue;
            size += text->size();
            if (!std::exchange(is_first, false)) pieces.push_back(array_comma_);
            pieces.push_back(std::move(text));
        }
        return next != all.end();
    }

    // --- events

    HttpResponse events(Door& door, HttpRequest const& request) {
        auto const parameters = parse_parameters(request.query);
        if (!parameters) return failed(parameters.error());
        auto options = parse_event_options(*parameters, request.last_event_id);
        if (!options) return failed(options.error());
        auto const id = Uuid::random();
        if (!id) return failed(id.error());
        bool const is_sse = net::weight_of(events_type, request.accept) > 0;
        options->view = view_of(door);
        options->form = is_sse ? info::Reader::Form::sse : info::Reader::Form::lines;
        HttpResponse response;
        response.type = is_sse ? events_type : lines_type;
        response.is_endless = true;
        response.stream = [events = events_, options = std::move(*options), id = id->text(),
                           name = text::printable_ascii(request.user_agent, longest_shown), entrance = door.entrance](
                              HttpStream& out) { return events->follow(out, options, id, name, entrance); };
        return response;
    }

    // --- about the daemon

    HttpResponse status(Door const& door, HttpRequest const& request) {
        auto const parameters = parse_parameters(request.query);
        if (!parameters) return failed(parameters.error());
        auto const known = check_keys(*parameters, {"full"});
        if (!known) return failed(known.error());
        auto const is_full = flag_of(*parameters, "full");
        if (!is_full) return failed(is_full.error());
        bool const names_listeners = view_of(door) == View::full;
        Made& made = made_status_[{*is_full, names_listeners}];
        return shared_response(json_type,
                               recent(made, [&] { return status_text(facts(), *is_full, names_listeners); }));
    }

    HttpResponse metrics(HttpRequest const& request) {
        net::MetricsFormat const format = net::metrics_format(request.accept);
        Made& made = made_metrics_[format];
        return shared_response(net::content_type(format), recent(made, [&] { return metrics_text(facts(), format); }));
    }

    /// A text that many ask for and that is expensive to make.
    struct Made {
        Text text = {};
        TimePoint at = {};
    };
    template <class Make>
    Text recent(Made& made, Make const& make) const {
        TimePoint const now = std::chrono::steady_clock::now();
        if (!made.text || now - made.at >= settings_.status_age) made = {shared(make()), now};
        return made.text;
    }

    [[nodiscard]] StatusFacts facts() const {
        StatusFacts facts;
        facts.version = settings_.version;
        facts.now = settings_.now();
        facts.resident_bytes = resident_bytes();
        facts.daemon = around_.daemon.facts();
        auto counts = around_.cache.counts();
        facts.machines = counts.machines;
        facts.unreadable = counts.broken;
        facts.states = std::move(counts.states);
        facts.document_bytes = around_.cache.bytes();
        facts.first_sequence = around_.feed.first();
        facts.next_sequence = around_.feed.next();
        facts.kept_bytes = around_.feed.bytes();
        facts.queue = around_.agenda.queue();
        facts.resyncs = events_->resyncs();
        facts.listeners = events_->listeners();
        for (std::size_t i = 0; i < doors_.size(); ++i)
            facts.http[i] = doors_[i].figures;
        facts.requests = requests_;
        return facts;
    }

    /// All that ask meanwhile get one answer, so that those of one entrance take no place from the other.
    Task<HttpResponse> usage() {
        if (!usage_ || usage_->result) {
            usage_ = make_awaited<Text>(around_.loop, settings_.fresh_limit, "the usage");
            around_.daemon.usage([awaited = usage_](Result<Text> got) { awaited->bring(std::move(got)); });
        }
        auto const got = co_await arrival(usage_);
        if (!got) co_return failed(got.error());
        co_return shared_response(json_type, *got);
    }

    Task<HttpResponse> history(Door& door, HttpRequest const& request) {
        auto const parameters = parse_parameters(request.query);
        if (!parameters) co_return failed(parameters.error());
        auto const known = check_keys(*parameters, {"vm"});
        if (!known) co_return failed(known.error());
        std::optional<Uuid> which;
        if (std::string const* const name = value_of(*parameters, "vm")) {
            auto const uuid = machine::parse_uuid(*name);
            if (!uuid) co_return failed(uuid.error());
            which = *uuid;
        }
        bool const is_open = view_of(door) != View::full;
        if (is_open && histories_.use_count() > most_histories) {  // one of them is the member
            HttpResponse busy = net::text_response(503, "too many read the history");
            busy.asks_to_retry = true;
            co_return busy;
        }
        // Each open answer keeps a text of its own for as long as its reader likes.
        auto place = is_open ? histories_ : nullptr;
        auto const awaited = make_awaited<Text>(around_.loop, settings_.fresh_limit, "the history");
        around_.daemon.history(which, [awaited](Result<Text> got) { awaited->bring(std::move(got)); });
        auto const got = co_await arrival(awaited);
        if (!got) co_return failed(got.error());
        if (!is_open) co_return shared_response(lines_type, *got);
        co_return open_history(door, *got, std::move(place));
    }

    HttpResponse open_history(Door const& door, Text lines, std::shared_ptr<void const> place) {
        HttpResponse response;
        response.type = lines_type;
        response.stream = [self = shared_from_this(), lines = std::move(lines),
                           peer = std::string(name_of(door.entrance)), place = std::move(place)](HttpStream& out) {
            return self->send_open_history(out, *lines, peer);
        };
        return response;
    }

    Task<> send_open_history(HttpStream& out, std::string_view lines, std::string const& peer) {
        while (!lines.empty()) {
            std::vector<Text> pieces;
            pieces.push_back(shared(open_lines(lines, lines_in_step)));
            bool const goes_on = co_await out.write(pieces);
            if (!goes_on) co_return;
            co_await turns_.take(peer);
        }
    }

    ServiceSettings settings_;
    Surroundings around_;
    net::HttpRouter router_;
    std::shared_ptr<void const> histories_ = std::make_shared<char>();  // shared by each open answer
    Text page_;
    std::string page_fields_;
    Text pong_ = shared(R"({"ping":"pong"})");
    Text array_begin_ = shared("[");
    Text array_comma_ = shared(",\n");
    Text array_end_ = shared("]\n");
    net::Turns turns_;
    std::shared_ptr<EventStreams> events_;
    std::map<std::pair<Endpoint, unsigned>, std::uint64_t> requests_;
    std::map<std::pair<bool, bool>, Made> made_status_;  // full; with names
    std::map<net::MetricsFormat, Made> made_metrics_;
    std::size_t fresh_ = 0;   // how many wait for a fresh look
    AwaitedPtr<Text> usage_;  // the latest that was asked for
    std::array<Door, entrance_count> doors_{{{Entrance::unix_socket}, {Entrance::tcp}}};
};

Service::Service(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Service::~Service() { impl_->close(); }

Result<std::unique_ptr<Service>> Service::create(ServiceSettings settings, Surroundings around) {
    auto impl = std::make_shared<Impl>(std::move(settings), around);
    std::unique_ptr<Service> service(new Service(impl));
    TRY(impl->open());
    return service;
}

Result<> Service::listen(UniqueFd socket, Entrance entrance) { return impl_->listen(std::move(socket), entrance); }

void Service::feed_has_grown() { impl_->feed_has_grown(); }

void Service::stop(std::function<void()> stopped) { impl_->stop(std::move(stopped)); }

}  // namespace triton::program
