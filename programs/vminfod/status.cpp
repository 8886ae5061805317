#include "programs/vminfod/status.h"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "host/machine/values.h"
#include "lib/json/writer.h"

namespace triton::program {

namespace {

using machine::time_text;

constexpr std::int64_t second = 1'000'000;

/// How long ago something was, in short: "3s", "2m", "7h", "4d".
std::string age_text(std::int64_t microseconds) {
    std::int64_t const seconds = microseconds > 0 ? microseconds / second : 0;
    if (seconds < 120) return std::to_string(seconds) + "s";
    if (seconds < 120 * 60) return std::to_string(seconds / 60) + "m";
    if (seconds < 48 * 3600) return std::to_string(seconds / 3600) + "h";
    return std::to_string(seconds / 86400) + "d";
}

/// Writes "54632.55s (15.18h)".
std::string uptime_text(std::int64_t microseconds) {
    double const seconds = static_cast<double>(microseconds) / static_cast<double>(second);
    std::array<char, 64> text{};
    int const size = std::snprintf(text.data(), text.size(), "%.2fs (%.2fh)", seconds, seconds / 3600);
    return {text.data(), static_cast<std::size_t>(size)};
}

/// Describes a job: "5c2f...: stored, unit", "all machines".
std::string text_of(info::Job const& job) {
    return job.machine ? *job.machine + ": " + job.parts.text() : "all machines";
}

void write_queue(json::Writer& out, info::Agenda::Queue const& queue) {
    out.open('{').member("pending", queue.running.size());
    out.member("queued", queue.targeted + queue.refresh + queue.delayed).member("targeted", queue.targeted);
    out.member("refresh", queue.refresh).member("delayed", queue.delayed);
    out.member("launchers", queue.launchers).member("waiters", queue.waiters);
    out.member("refreshing", queue.is_refreshing).key("running").open('[');
    for (info::Job const& job : queue.running)
        out.open('{').member("description", text_of(job)).member("why", job.why).close('}');
    out.close(']').close('}');
}

void write_sources(json::Writer& out, DaemonFacts const& daemon) {
    out.open('[');
    for (DaemonFacts::Source const& source : daemon.sources) {
        out.open('{').member("name", source.name).member("working", source.is_working);
        if (!source.note.empty()) out.member("note", source.note);
        out.member("notifications", source.notifications).member("losses", source.losses).close('}');
    }
    out.close(']');
}

void write_refresh_errors(json::Writer& out, DaemonFacts const& daemon, std::int64_t now) {
    out.open('[');
    for (DaemonFacts::Problem const& problem : daemon.refresh_errors) {
        out.open('{').member("err", problem.text).member("time", time_text(problem.at));
        out.member("ago", age_text(now - problem.at)).close('}');
    }
    out.close(']');
}

void write_refresh_log(json::Writer& out, DaemonFacts const& daemon) {
    out.open('[');
    for (DaemonFacts::Refresh const& refresh : daemon.refresh_log) {
        out.open('{').member("date", time_text(refresh.at)).member("why", refresh.why);
        out.key("took").seconds(refresh.took).member("vms", refresh.machines).member("vmChanges", refresh.changes);
        out.close('}');
    }
    out.close(']');
}

void write_listeners(json::Writer& out, std::vector<ListenerFacts> const& listeners, std::int64_t now) {
    out.open('{');
    for (ListenerFacts const& listener : listeners) {
        out.name(listener.id).open('{').member("userAgent", listener.user_agent);
        out.member("entrance", name_of(listener.entrance)).member("createdTime", listener.began_at / 1000);
        out.member("createdDate", time_text(listener.began_at)).member("createdAgo", age_text(now - listener.began_at));
        out.member("inSnapshot", listener.is_in_snapshot).member("resyncs", listener.resyncs).close('}');
    }
    out.close('}');
}

void write_listener_counts(json::Writer& out, std::vector<ListenerFacts> const& listeners) {
    auto const tcp = std::ranges::count(listeners, Entrance::tcp, &ListenerFacts::entrance);
    out.open('{').member("unix", static_cast<std::int64_t>(listeners.size()) - tcp).member("tcp", tcp).close('}');
}

void write_http(json::Writer& out, StatusFacts const& facts) {
    out.open('{');
    for (std::size_t i = 0; i < entrance_count; ++i) {
        net::HttpFigures const& http = facts.http[i];
        out.key(name_of(static_cast<Entrance>(i))).open('{').member("connections", http.connections);
        out.member("openConnections", http.open_connections).member("openStreams", http.open_streams);
        out.member("refusedStreams", http.refused_streams).member("evictedConnections", http.evicted_connections);
        out.member("evictedStreams", http.evicted_streams).member("evictedAnswers", http.evicted_answers).close('}');
    }
    out.close('}');
}

using net::MetricsWriter;
using Type = MetricsWriter::Type;

void add_daemon(MetricsWriter& out, DaemonFacts const& daemon) {
    out.single("vminfod_start_time_seconds", Type::gauge, "When the daemon started, in Unix time.",
               static_cast<double>(daemon.started_at / second));
    if (daemon.refreshed_at)
        out.single("vminfod_last_refresh_time_seconds", Type::gauge,
                   "When the latest full refresh ended, in Unix time.",
                   static_cast<double>(*daemon.refreshed_at / second));
    out.single("vminfod_refreshes", Type::counter, "Full refreshes.", static_cast<double>(daemon.refreshes));
    out.single("vminfod_missed_events", Type::counter, "Events that only a refresh has found.",
               static_cast<double>(daemon.missed));
    out.single("vminfod_reloads", Type::counter, "Machines that were read again.", static_cast<double>(daemon.reloads));
    out.single("vminfod_written_off_threads", Type::gauge, "Threads that hang at a machine's launcher.",
               static_cast<double>(daemon.written_off));
    out.single("vminfod_stuck", Type::gauge, "1 while a look at a machine hangs, and nothing else is looked at.",
               daemon.is_stuck ? 1 : 0);
    out.family("vminfod_source_working", Type::gauge, "1 while a source of notifications works.");
    for (auto const& source : daemon.sources)
        out.sample(source.is_working ? 1 : 0, {{"source", source.name}});
    out.family("vminfod_source_notifications", Type::counter, "Notifications of a source.");
    for (auto const& source : daemon.sources)
        out.sample(static_cast<double>(source.notifications), {{"source", source.name}});
    out.family("vminfod_source_losses", Type::counter, "How often a source has lost notifications.");
    for (auto const& source : daemon.sources)
        out.sample(static_cast<double>(source.losses), {{"source", source.name}});
}

/// One figure of each entrance's server.
struct HttpRow {
    std::string_view name;
    Type type;
    std::string_view help;
    std::uint64_t net::HttpFigures::* figure;
};
constexpr std::array<HttpRow, 7> http_rows{{
    {"vminfod_connections", Type::counter, "Connections accepted.", &net::HttpFigures::connections},
    {"vminfod_open_connections", Type::gauge, "Connections open now.", &net::HttpFigures::open_connections},
    {"vminfod_evicted_connections", Type::counter, "Silent connections that gave way to others.",
     &net::HttpFigures::evicted_connections},
    {"vminfod_open_streams", Type::gauge, "Listeners now.", &net::HttpFigures::open_streams},
    {"vminfod_refused_streams", Type::counter, "Listeners that were too many.", &net::HttpFigures::refused_streams},
    {"vminfod_evicted_streams", Type::counter, "Stalled listeners that gave way to others.",
     &net::HttpFigures::evicted_streams},
    {"vminfod_evicted_answers", Type::counter, "Long answers that gave way to others.",
     &net::HttpFigures::evicted_answers},
}};

void add_http(MetricsWriter& out, StatusFacts const& facts) {
    out.family("vminfod_requests", Type::counter, "Answers given.");
    for (auto const& [what, count] : facts.requests)
        out.sample(static_cast<double>(count),
                   {{"endpoint", std::string(name_of(what.first))}, {"code", std::to_string(what.second)}});
    for (HttpRow const& row : http_rows) {
        out.family(row.name, row.type, row.help);
        for (std::size_t i = 0; i < entrance_count; ++i)
            out.sample(static_cast<double>(facts.http[i].*row.figure),
                       {{"entrance", std::string(name_of(static_cast<Entrance>(i)))}});
    }
}

}  // namespace

std::string_view name_of(Entrance entrance) { return entrance == Entrance::unix_socket ? "unix" : "tcp"; }

std::string status_text(StatusFacts const& facts, bool is_full, bool names_listeners) {
    DaemonFacts const& daemon = facts.daemon;
    std::int64_t const now = facts.now;
    json::Writer out;
    out.open('{').member("pid", ::getpid()).member("version", facts.version);
    out.member("uptime", uptime_text(daemon.uptime));
    out.key("memory").open('{').member("rss", facts.resident_bytes).close('}');
    out.member("state", daemon.state).member("status", daemon.doing);
    out.member("numVms", facts.machines).member("unreadableVms", facts.unreadable);
    out.member("curDate", time_text(now)).member("curTime", now / 1000);
    write_queue(out.key("queue"), facts.queue);
    if (daemon.refreshed_at) {
        out.member("lastRefresh", time_text(*daemon.refreshed_at));
        out.member("lastRefreshAgo", age_text(daemon.since_refresh));
    }
    out.member("refreshes", daemon.refreshes).member("missedEvents", daemon.missed).member("reloads", daemon.reloads);
    out.member("writtenOffThreads", daemon.written_off);
    write_refresh_errors(out.key("refreshErrors"), daemon, now);
    if (!daemon.not_listening.empty()) out.member("notListening", daemon.not_listening);
    out.key("events").open('{').member("first", facts.first_sequence).member("next", facts.next_sequence);
    out.member("keptBytes", facts.kept_bytes)
        .member("documentBytes", facts.document_bytes)
        .member("resyncs", facts.resyncs)
        .close('}');
    write_sources(out.key("sources"), daemon);
    write_listener_counts(out.key("listeners"), facts.listeners);
    if (names_listeners) write_listeners(out.key("eventsListeners"), facts.listeners, now);
    if (is_full) {
        write_refresh_log(out.key("refreshLog"), daemon);
        write_http(out.key("http"), facts);
    }
    out.close('}');
    return std::move(out).text() + "\n";
}

std::string metrics_text(StatusFacts const& facts, net::MetricsFormat format) {
    MetricsWriter out(format);
    out.family("vminfod_info", Type::gauge, "The daemon that answers.");
    out.sample(1, {{"version", facts.version}});
    out.family("vminfod_vms", Type::gauge, "Machines, by state.");
    for (auto const& [state, count] : facts.states)
        out.sample(static_cast<double>(count), {{"state", state}});
    out.single("vminfod_resident_memory_bytes", Type::gauge, "Memory of the daemon.",
               static_cast<double>(facts.resident_bytes));
    out.single("vminfod_queue_length", Type::gauge, "Machines that wait to be read.",
               static_cast<double>(facts.queue.targeted + facts.queue.refresh + facts.queue.delayed));
    out.single("vminfod_events", Type::counter, "The sequence number of the next event.",
               static_cast<double>(facts.next_sequence));
    out.single("vminfod_resyncs", Type::counter, "How often listeners fell behind.",
               static_cast<double>(facts.resyncs));
    add_daemon(out, facts.daemon);
    add_http(out, facts);
    return std::move(out).take();
}

}  // namespace triton::program
