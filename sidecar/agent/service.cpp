#include "sidecar/agent/service.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <deque>

#include "lib/base/error_kinds.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "sidecar/control/control_reply.h"

namespace triton::agent {

using net::Task;

namespace {

constexpr std::string_view json_type = "application/json";
constexpr std::string_view text_type = "text/plain; charset=utf-8";
constexpr Duration status_limit = std::chrono::seconds(3);
constexpr Duration staging_limit = std::chrono::minutes(10);
/// PID 1 is asked at most this often, however often we are asked.
constexpr Duration snapshot_age = std::chrono::milliseconds(250);
constexpr Duration look_limit = std::chrono::seconds(5);
constexpr std::size_t most_staging = 4;
constexpr std::size_t hash_window = 8;     // of one request for many
constexpr std::size_t files_in_turn = 16;  // some 200 us
constexpr int most_hash_attempts = 3;

double unix_time() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

HttpResponse make_reply(unsigned status, std::string_view type, std::string body) {
    HttpResponse reply;
    reply.status = status;
    reply.type = type;
    reply.body = std::move(body);
    return reply;
}

HttpResponse json_reply(unsigned status, json::Writer const& body) {
    return make_reply(status, json_type, body.text() + "\n");
}

/// The answer to a request with a wrong body.
HttpResponse refused(std::string_view why) {
    return json_reply(400, json::Writer{}.open('{').member("error", why).close('}'));
}

HttpResponse failed(Error const& error) {
    HttpResponse reply = net::text_response(status_of(error), error.text());
    reply.asks_to_retry = reply.status == 503;
    return reply;
}

/// Reports a missing file in the words of the shipped program.
HttpResponse not_found(std::string_view path) { return net::text_response(404, json::shown(path) + " not found"); }

}  // namespace

unsigned status_of(Error const& error) { return row_of(error.kind).http_status; }

/// A file that is being hashed, for all requests that wait for it.
struct Service::PendingHash {
    explicit PendingHash(net::Loop& loop) : done(loop), is_wanted(std::make_shared<std::atomic<bool>>(true)) {}
    net::Condition done;
    std::optional<Result<FileHash>> result;
    std::size_t wishes = 0;
    std::shared_ptr<std::atomic<bool>> is_wanted;  // false when nobody waits; read by the pool
};

/// One request that waits for a hash. When the last one gives up, no more is read.
struct Service::Wish {
    Wish(Service& of, std::shared_ptr<PendingHash> hash, std::string_view by)
        : service(of), pending(std::move(hash)), peer(by) {
        ++pending->wishes;
        ++service.hashes_of_[peer];
    }
    Wish(Wish const&) = delete;
    Wish& operator=(Wish const&) = delete;
    ~Wish() {
        if (--pending->wishes == 0) pending->is_wanted->store(false, std::memory_order_relaxed);
        auto const count = service.hashes_of_.find(peer);
        if (--count->second == 0) service.hashes_of_.erase(count);
    }
    Service& service;
    std::shared_ptr<PendingHash> pending;
    std::string peer;
};

Service::Service(ServiceSettings settings, Surroundings around)
    : settings_(std::move(settings)),
      around_(std::move(around)),
      cache_(settings_.cached_hashes),
      turns_(around_.loop),
      pool_(settings_.hash_threads) {}

Service::~Service() = default;

namespace {

struct CountGuard {
    explicit CountGuard(std::size_t& counted) : count(counted) { ++count; }
    CountGuard(CountGuard const&) = delete;
    CountGuard& operator=(CountGuard const&) = delete;
    ~CountGuard() { --count; }
    std::size_t& count;
};

}  // namespace

Task<HttpResponse> Service::answer(HttpRequest const& request) {
    switch (endpoint_of(request.match.route)) {
        case Endpoint::ready:
        case Endpoint::healthz: co_return net::text_response(200, "OK");
        case Endpoint::readyz: co_return co_await readyz();
        case Endpoint::metrics: co_return co_await metrics(request.accept);
        case Endpoint::status: co_return co_await status();
        case Endpoint::substitutions: co_return make_reply(200, json_type, settings_.substitutions_json + "\n");
        case Endpoint::check_hash: co_return co_await check_hash(request);
        case Endpoint::is_present: co_return co_await is_present(request.match.path);
        case Endpoint::hashes: co_return co_await hashes(request);
        case Endpoint::copy_files: co_return co_await copy("files", request);
        case Endpoint::copy_binaries: co_return co_await copy("binaries", request);
        case Endpoint::copy_libraries: co_return co_await copy("libraries", request);
        case Endpoint::copy_monitor_conf: co_return co_await copy("monitor_conf", request);
        case Endpoint::stage: co_return co_await stage_in_detail(request);
        case Endpoint::refresh_certs: co_return refresh_certificates();
        case Endpoint::restart: co_return restart(request);
        case Endpoint::ui:
        case Endpoint::ui_session:
        case Endpoint::ui_events:
        case Endpoint::ui_configuration:
        case Endpoint::ui_logs:
        case Endpoint::ui_command:  // of the page: see Ui
        case Endpoint::none: break;
    }
    co_return net::text_response(404, "Path not found");
}

/// The shipped program answers OK to everybody and does nothing. Ours does restart, so it checks who asks.
HttpResponse Service::restart(HttpRequest const& request) const {
    if (!request.has_accepted_certificate)
        return net::text_response(403, "a restart needs TLS and a client certificate");
    HttpResponse response = net::text_response(200, "OK");
    response.written = around_.restart;
    return response;
}

// --- the launcher

Task<Result<Service::SharedSnapshot>> Service::snapshot(bool history) {
    Answered& answered = answered_[history ? 1 : 0];
    if (answered.fetching) {
        auto const others = answered.fetching;
        co_await others->wait();
        co_return answered.latest;
    }
    if (answered.at != TimePoint{} && std::chrono::steady_clock::now() - answered.at < snapshot_age)
        co_return answered.latest;
    struct Guard {  // also runs when an exception is thrown
        Answered& answered;
        std::shared_ptr<net::Condition> waiting;
        ~Guard() {
            answered.fetching.reset();
            waiting->notify_all();
        }
    };
    answered.fetching = std::make_shared<net::Condition>(around_.loop);
    Guard const guard{answered, answered.fetching};
    answered.latest = fail(ErrorKind::unavailable, "the launcher was not asked");
    answered.latest = co_await fetch_snapshot(history);
    answered.at = std::chrono::steady_clock::now();
    co_return answered.latest;
}

/// Calls the launcher. One that becomes another version ends its connections; a call that may be repeated is then made
/// once more.
Task<Result<std::vector<json::Node>>> Service::ask(std::string method, std::string parameters, bool more,
                                                   Duration limit) {
    auto replies = co_await around_.control.call(method, parameters, more, limit);
    if (replies || replies.error().kind != ErrorKind::unavailable) co_return replies;
    co_return co_await around_.control.call(method, parameters, more, limit);
}

Task<Result<Service::SharedSnapshot>> Service::fetch_snapshot(bool history) {
    auto launcher = co_await ask("org.tritonlaunch.Launcher.GetStatus", "{}", false, status_limit);
    if (!launcher) co_return std::unexpected(std::move(launcher).error());
    std::string const what = history ? R"({"history":true})" : "{}";
    auto list = co_await ask("org.tritonlaunch.Launcher.List", what, true, status_limit);
    // An older launcher has no history.
    if (!list && history && list.error().kind != ErrorKind::unavailable)
        list = co_await ask("org.tritonlaunch.Launcher.List", "{}", true, status_limit);
    if (!list) co_return std::unexpected(std::move(list).error());
    if (launcher->empty()) co_return fail("the launcher answered nothing");
    auto result = std::make_shared<Snapshot>();
    result->status = supervision_status(launcher->front(), *list);
    start_times_.settle(result->status, unix_time());
    json::Node const* const about = json::member(launcher->front(), "launcher");
    result->launcher_json = json::Writer{}.value(about ? *about : json::Node{}).text();
    result->programs_json = programs_json(*list);
    co_return result;
}

Task<HttpResponse> Service::readyz() {
    if (!around_.control.has_launcher()) co_return net::text_response(200, "ready");
    auto const seen = co_await snapshot();
    if (!seen) co_return net::text_response(503, "[-]launcher: " + seen.error().text() + "\nnot ready");
    Readiness const found = readiness((*seen)->status);
    co_return make_reply(found.is_ready ? 200U : 503U, text_type, found.text);
}

Task<HttpResponse> Service::metrics(std::string_view accept) {
    MetricsFormat const format = metrics_format(accept);
    Result<SharedSnapshot> seen = SharedSnapshot();
    if (around_.control.has_launcher()) seen = co_await snapshot();
    SupervisionStatus const* const status = seen && *seen ? &(*seen)->status : nullptr;
    co_return make_reply(200, content_type(format), render_metrics(status, around_.figures, settings_.version, format));
}

Task<HttpResponse> Service::status() {
    json::Writer body;
    body.open('{').key("agent").open('{').member("version", settings_.version);
    body.member("open_connections", around_.figures.http.open_connections);
    if (around_.figures.certificate_not_after)
        body.member("certificate_not_after", *around_.figures.certificate_not_after);
    body.close('}');
    if (around_.control.has_launcher()) {
        auto const seen = co_await snapshot(true);
        if (seen) {
            body.key("launcher").raw((*seen)->launcher_json).key("programs").raw((*seen)->programs_json);
            body.member("ready", readiness((*seen)->status).is_ready);
        } else {
            body.member("error", seen.error().text());
        }
    }
    co_return json_reply(200, body.close('}'));
}

/// Has the launcher stage files. The agent may not write where it looks, and what it has read must not direct a writer:
/// so the launcher gets one word of five and copies what its own command line says. Files that were copied are not
/// copied again, so the call may be repeated. A copy may take minutes, so nothing else waits behind it.
Task<Result<StagingReply>> Service::stage(std::string_view what, HttpRequest const& request) {
    if (!around_.control.has_launcher()) co_return fail(ErrorKind::unsupported, "copy", "there is no launcher");
    if (staging_ >= most_staging) co_return fail(ErrorKind::unavailable, "copy", "too many do already");
    CountGuard const guard(staging_);
    std::string parameters = json::Writer{}.open('{').member("what", what).close('}').text();
    std::string const method = "org.tritonlaunch.Launcher.Stage";
    auto replies = co_await around_.control.call_alone(method, parameters, staging_limit, *request.caller);
    // One that becomes another version ends its connections: see ask().
    if (!replies && replies.error().kind == ErrorKind::unavailable)
        replies = co_await around_.control.call_alone(method, parameters, staging_limit, *request.caller);
    if (!replies) co_return std::unexpected(replies.error());
    co_return staging_reply(*replies);
}

/// Answers in the words of the shipped program.
Task<HttpResponse> Service::copy(std::string_view what, HttpRequest const& request) {
    auto const copied = co_await stage(what, request);
    if (!copied) co_return failed(copied.error());
    if (copied->errors.empty()) co_return net::text_response(200, "OK");
    std::string errors;
    for (std::string const& one : copied->errors)
        errors.append(one).append("\n");
    co_return make_reply(500, text_type, std::move(errors));
}

Task<HttpResponse> Service::stage_in_detail(HttpRequest const& request) {
    auto const what = parse_stage_request(request.body);
    if (!what) co_return refused(what.error());
    auto const copied = co_await stage(*what, request);
    if (!copied) co_return failed(copied.error());
    co_return make_reply(copied->errors.empty() ? 200U : 500U, json_type, staging_json(*copied));
}

// --- files

template <class T>
Task<Result<T>> Service::look(std::function<T()> ask) {
    struct Answer {
        explicit Answer(net::Loop& loop) : done(loop) {}
        net::Condition done;
        std::optional<Result<T>> result;
        void finish(Result<T> with) {
            if (result) return;
            result = std::move(with);
            done.notify_all();
        }
    };
    if (looking_ >= settings_.most_looks)
        co_return fail(ErrorKind::unavailable, "ask the file system", "it has too many questions already");
    auto const answer = std::make_shared<Answer>(around_.loop);
    ++looking_;
    pool_.call([this, answer, ask = std::move(ask)] {
        T found = ask();
        net::post(around_.loop, [this, answer, found = std::move(found)]() mutable {
            --looking_;
            answer->finish(std::move(found));
        });
    });
    net::Timer late(around_.loop);
    late.call_at(std::chrono::steady_clock::now() + look_limit, [answer] {
        answer->finish(fail(ErrorKind::unavailable, "ask the file system", "it does not answer"));
    });
    while (!answer->result)
        co_await answer->done.wait();
    co_return std::move(*answer->result);
}

Task<std::deque<Service::Looked>> Service::look_at_files(std::vector<std::string> paths) {
    std::size_t const count = paths.size();
    std::function<std::deque<Looked>()> ask = [output = around_.output, paths = std::move(paths)] {
        std::deque<Looked> all;
        for (std::string const& path : paths) {
            if (output) all.push_back(output->look_at_file(path));
            if (!output) all.push_back(fail(ENOENT, "open " + json::shown(path)));
        }
        return all;
    };
    auto found = co_await look(std::move(ask));
    if (found) co_return std::move(*found);
    co_return std::deque<Looked>(count, Looked(std::unexpected(found.error())));
}

Task<Service::Looked> Service::look_at_file(std::string path) {
    std::vector<std::string> const one(1, std::move(path));  // GCC 12 cannot wait with {path}
    auto looked = co_await look_at_files(one);
    co_return std::move(looked.front());
}

Task<HttpResponse> Service::is_present(std::string path) {
    if (!around_.output) co_return not_found(path);
    struct Found {
        Result<bool> is_there;
    };
    std::function<Found()> ask = [output = around_.output, path] { return Found{output->exists(path)}; };
    auto const found = co_await look(std::move(ask));
    if (!found) co_return failed(found.error());
    if (!found->is_there) co_return failed(found->is_there.error());
    co_return *found->is_there ? net::text_response(200, "OK") : not_found(path);
}

Service::Begun Service::begin_hash(std::string const& path, Looked const& looked, HttpRequest const& request) {
    using Pending = Result<std::shared_ptr<Wish>>;
    if (!looked) return std::unexpected(Pending(std::unexpected(looked.error())));
    // A file whose rights have changed has another ctime: so nobody gets the hash of a file that may no longer be read.
    FileKey const key = FileKey::of(*looked);
    if (auto known = cache_.find(key)) {
        ++around_.figures.hash_hits;
        return HashedFile{std::move(*known), key.size};
    }
    ++around_.figures.hash_misses;
    auto const own = hashes_of_.find(request.peer);
    auto const running = pending_.find(key);
    bool const is_new = running == pending_.end() || !running->second->is_wanted->load();
    if ((is_new && hashing_ >= settings_.most_hashes) ||
        (own != hashes_of_.end() && own->second >= settings_.most_hashes_of_peer))
        return std::unexpected(
            Pending(fail(ErrorKind::unavailable, "hash " + json::shown(path), "too many wait already")));
    if (!is_new) return std::unexpected(std::make_shared<Wish>(*this, running->second, request.peer));
    auto const pending = std::make_shared<PendingHash>(around_.loop);
    pending_.insert_or_assign(key, pending);
    auto open = [output = around_.output, path, key]() -> Result<UniqueFd> {
        auto file = TRY(output->open_file(path));
        // Others may wait for this file by another name: they must not get what has taken its place here.
        if (FileKey::of(file.status) != key) return fail(ErrorKind::busy, "hash the file", "it changed meanwhile");
        return std::move(file.fd);
    };
    auto done = [this, key, pending](Result<FileHash> result) {
        net::post(around_.loop, [this, key, pending, result = std::move(result)]() mutable {
            hash_done(key, pending, std::move(result));
        });
    };
    ++hashing_;
    pool_.add(std::move(open), std::move(done), pending->is_wanted);
    return std::unexpected(std::make_shared<Wish>(*this, pending, request.peer));
}

void Service::hash_done(FileKey const& key, std::shared_ptr<PendingHash> const& pending, Result<FileHash> result) {
    --hashing_;
    // A new hash may have begun under this key after all that waited for this one had gone.
    if (auto const found = pending_.find(key); found != pending_.end() && found->second == pending)
        pending_.erase(found);
    if (result) {
        around_.figures.hashed_bytes += result->key.size;
        if (result->is_settled) cache_.insert(result->key, result->sha256);
    }
    pending->result = std::move(result);
    pending->done.notify_all();
}

Task<Result<Service::HashedFile>> Service::finish_hash(std::shared_ptr<Wish> wish, HttpRequest const& request) {
    auto const pending = wish->pending;
    request.caller->when_gone([pending] { pending->done.notify_all(); });
    while (!pending->result && !request.caller->has_gone())
        co_await pending->done.wait();
    request.caller->when_gone({});
    if (!pending->result) co_return fail(ErrorKind::refused, "hash the file", "nobody waits for it any longer");
    auto const& result = *pending->result;
    if (!result) co_return std::unexpected(result.error());
    co_return HashedFile{result->sha256, result->key.size};
}

Task<Result<Service::HashedFile>> Service::hash(std::string path, Begun begun, HttpRequest const& request) {
    for (int attempt = 1;; ++attempt) {
        if (begun) co_return std::move(*begun);
        if (!begun.error()) co_return std::unexpected(begun.error().error());
        auto result = co_await finish_hash(*begun.error(), request);
        // Most likely the file was replaced, and is complete under its name now.
        if (result || result.error().kind != ErrorKind::busy || attempt == most_hash_attempts) co_return result;
        Looked const looked = co_await look_at_file(path);
        begun = begin_hash(path, looked, request);
    }
}

Task<HttpResponse> Service::check_hash(HttpRequest const& request) {
    std::string const path = request.match.path;
    Looked const looked = co_await look_at_file(path);
    Begun begun = begin_hash(path, looked, request);
    auto const result = co_await hash(path, std::move(begun), request);
    if (!result) co_return result.error().kind == ErrorKind::not_found ? not_found(path) : failed(result.error());
    co_return make_reply(200, text_type, result->sha256);  // as shipped: without a newline
}

Task<HttpResponse> Service::hashes(HttpRequest const& request) {
    auto const paths = parse_hashes_request(request.body, settings_.most_paths);
    if (!paths) co_return refused(paths.error());
    json::Writer body;
    body.open('{').key("files").open('[');
    std::deque<Looked> looked;  // at the files from `next` on
    std::size_t next = 0;
    std::deque<Begun> ahead;  // those before it, so that all threads of the pool have work
    for (std::size_t i = 0; i < paths->size() && !request.caller->has_gone(); ++i) {
        // Known hashes take time, too: others have a turn in between.
        if (i % files_in_turn == files_in_turn - 1) co_await turns_.take(std::string(request.peer));
        for (; ahead.size() < hash_window && next < paths->size(); ++next) {
            if (looked.empty()) {
                auto const from = paths->begin() + static_cast<std::ptrdiff_t>(next);
                auto const count = std::min<std::ptrdiff_t>(paths->end() - from, files_in_turn);
                std::vector<std::string> names(from, from + count);
                looked = co_await look_at_files(std::move(names));
            }
            ahead.push_back(begin_hash((*paths)[next], looked.front(), request));
            looked.pop_front();
        }
        Begun begun = std::move(ahead.front());
        ahead.pop_front();
        auto const result = co_await hash((*paths)[i], std::move(begun), request);
        body.open('{').member("path", (*paths)[i]);
        if (result) {
            body.member("bytes", result->bytes).member("sha256", result->sha256);
        } else {
            body.member("status", status_of(result.error())).member("error", result.error().text());
        }
        body.close('}');
    }
    co_return json_reply(200, body.close(']').close('}'));
}

HttpResponse Service::refresh_certificates() {
    if (!around_.reload_certificates) return net::text_response(400, "Server is not using TLS");
    auto const done = around_.reload_certificates();
    return done ? net::text_response(200, "OK") : net::text_response(500, done.error().text());
}

}  // namespace triton::agent
