#include "sidecar/kubernetes/reporter.h"

namespace triton::kubernetes {

namespace {

using std::chrono::seconds;

constexpr Duration shortest_watch = seconds(600);  // to its timeout, at the server: so few requests an hour
constexpr Duration watch_spread = seconds(300);
constexpr Duration past_timeout = seconds(30);  // after that the watch hangs
/// The server sends a bookmark about once a minute, if at all.
constexpr Duration longest_silence = seconds(300);
constexpr Duration decent_life = seconds(10);  // a watch that ends sooner counts as a failure
constexpr std::uint32_t tolerated_short_lives = 2;

}  // namespace

std::optional<Watched> Reporter::watched_by(std::uint64_t id) const {
    for (Watched const what : {Watched::pod, Watched::node}) {
        Watch const& watch = watches_[static_cast<std::size_t>(what)];
        if (watch.state != Watch::State::closed && watch.id == id) return what;
    }
    return std::nullopt;
}

void Reporter::keep_watching(Watched what) {
    Watch& watch = watch_of(what);
    if (what == Watched::node) {
        if (!settings_.watches_node || node_name().empty()) return;
        if (watched_node_ != node_name()) {  // another pod of our name may have started elsewhere
            if (watch.state != Watch::State::closed) close_watch(what);
            watch = Watch{};
            watched_node_ = node_name();
            variables_.reset();
        }
    }
    switch (watch.state) {
        case Watch::State::closed: {
            auto const& refused_until = health(part_of(what)).retry_at;
            if (refused_until && !is_due(*refused_until)) return;
            if (watch.retry_at && !is_due(*watch.retry_at)) return;
            return open_watch(what);
        }
        case Watch::State::opening: return;  // it has limits of its own
        case Watch::State::open: {
            if (watch.short_lives > tolerated_short_lives && is_due(watch.opened_at + decent_life)) {
                watch.short_lives = 0;
                part_works(part_of(what));
            }
            TimePoint limit = watch.opened_at + watch.timeout + past_timeout;
            if (watch.has_bookmarks) limit = std::min(limit, watch.heard_at + longest_silence);
            if (!is_due(limit)) return;
            close_watch(what);
            watch_broke(what, "nothing was heard from it for too long");
            return keep_watching(what);
        }
    }
}

void Reporter::open_watch(Watched what) {
    Watch& watch = watch_of(what);
    watch.state = Watch::State::opening;
    watch.id = ++last_id_;
    watch.retry_at.reset();
    watch.has_bookmarks = false;
    watch.has_fresh_token = std::exchange(watch.wants_fresh_token, false);
    auto const timeout = shortest_watch + std::chrono::duration_cast<Duration>(watch_spread * random_.unit());
    watch.timeout = std::chrono::floor<seconds>(timeout);
    bool const is_pod = what == Watched::pod;
    if (is_pod && watch.resource_version.empty()) pod_version_.clear();  // see watch_broke()
    std::string target =
        is_pod ? "/api/v1/namespaces/" + percent_encoded(settings_.pod_namespace) + "/pods" : "/api/v1/nodes";
    target.append("?watch=true&allowWatchBookmarks=true&fieldSelector=");
    target.append(percent_encoded("metadata.name=" + (is_pod ? settings_.pod_name : watched_node_)));
    target.append("&timeoutSeconds=").append(std::to_string(watch.timeout / seconds(1)));
    if (!watch.resource_version.empty())
        target.append("&resourceVersion=").append(percent_encoded(watch.resource_version));
    actions_.push_back(action::OpenWatch{.what = what,
                                         .id = watch.id,
                                         .target = std::move(target),
                                         .wants_metadata_only = is_pod ? wants_metadata_only() : true,
                                         .with_fresh_token = watch.has_fresh_token});
}

void Reporter::close_watch(Watched what) {
    Watch& watch = watch_of(what);
    watch.state = Watch::State::closed;
    actions_.push_back(action::CloseWatch{what, watch.id});
}

void Reporter::on(heard::WatchOpened const& opened) {
    auto const what = watched_by(opened.watch);
    if (!what) return;
    Watch& watch = watch_of(*what);
    watch.state = Watch::State::open;
    watch.has_opened = true;
    watch.opened_at = watch.heard_at = now_.time;
    last_success_ = now_.unix_microseconds;
    if (watch.short_lives <= tolerated_short_lives) part_works(part_of(*what));
    // The server is back: writes need not wait any longer, unless it has asked for that.
    if (!is_overloaded_) server_retry_at_.reset();
}

void Reporter::on(heard::WatchLine const& line) {
    auto const what = watched_by(line.watch);
    if (!what) return;
    watch_of(*what).heard_at = now_.time;
    auto const event = parse_watch_event(line.text, wanted_);
    if (event) return watch_heard(*what, *event);
    close_watch(*what);
    watch_broke(*what, event.error().text());
}

void Reporter::watch_heard(Watched what, WatchEvent const& event) {
    Watch& watch = watch_of(what);
    if (event.type == WatchEventType::error) {
        close_watch(what);
        if (event.status.code == 410) return version_gone(what);
        // A server that opens a watch and then refuses it, again and again, does not work in between.
        if (now_.time - watch.opened_at < decent_life) ++watch.short_lives;
        return watch_broke(what, "HTTP status " + std::to_string(event.status.code) + ": " + event.status.message);
    }
    watch.resource_version = event.object.resource_version;
    if (event.type == WatchEventType::bookmark) {
        watch.has_bookmarks = true;
        return;
    }
    bool const is_deleted = event.type == WatchEventType::deleted;
    if (what == Watched::node) {
        if (!is_deleted && event.object.name == watched_node_) node_seen(event.object);
        return;
    }
    if (event.object.name != settings_.pod_name) return;
    if (!is_deleted) return pod_seen(event.object);
    if (pod_uid_.empty() || event.object.uid == pod_uid_) pod_gone();
}

void Reporter::on(heard::WatchEnded const& ended) {
    auto const what = watched_by(ended.watch);
    if (!what) return;
    Watch& watch = watch_of(*what);
    watch.state = Watch::State::closed;
    if (ended.status == 200) return watch_ran_out(*what);
    if (ended.status == 0) return watch_broke(*what, ended.text);
    ApiStatus const status = parse_status(ended.text, ended.status);
    std::string why = "HTTP status " + std::to_string(status.code);
    if (!status.message.empty()) why += ": " + status.message;
    if (status.code == 410) return version_gone(*what);
    if (status.code == 401 && !watch.has_fresh_token) {
        watch.wants_fresh_token = true;
        return;
    }
    if (status.code == 403) return part_denied(part_of(*what), "watch", status);
    if (status.code == 401 || status.code == 429 || status.code >= 500)
        return watch_broke(*what, std::move(why), ended.retry_after);
    watch.resource_version.clear();  // the server may not like this version
    part_failed(part_of(*what), std::move(why), log::LogLevel::error);
    retry_slowly(part_of(*what));
}

/// Watches end at their timeout, and with their server. The next one continues where this one was.
void Reporter::watch_ran_out(Watched what) {
    Watch& watch = watch_of(what);
    if (now_.time - watch.opened_at >= decent_life) {
        watch.short_lives = 0;
        watch.backoff.reset();
        // When a server ends, so do the watches of all pods.
        watch.retry_at = now_.time + std::chrono::duration_cast<Duration>(seconds(1) * random_.unit());
        return;
    }
    if (++watch.short_lives > tolerated_short_lives) return watch_broke(what, "it ends again and again");
    watch.retry_at = now_.time + watch.backoff.after_failure(random_);
}

/// Begins anew: the server that comes back may be another one, with versions of its own. For one object that is cheap.
void Reporter::watch_broke(Watched what, std::string why, std::optional<Duration> retry_after) {
    Watch& watch = watch_of(what);
    watch.retry_at = now_.time + watch.backoff.after_failure(random_, retry_after);
    watch.resource_version.clear();
    part_failed(part_of(what), std::move(why));
}

/// The server no longer knows what has happened since that version: begin anew, at once, but not twice in a row.
void Reporter::version_gone(Watched what) {
    Watch& watch = watch_of(what);
    bool const is_again = watch.gone_at && now_.time - *watch.gone_at < decent_life;
    watch.gone_at = now_.time;
    if (watch.resource_version.empty() || is_again) return watch_broke(what, "HTTP status 410 again and again");
    watch.resource_version.clear();
}

}  // namespace triton::kubernetes
