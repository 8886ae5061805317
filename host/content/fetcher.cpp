#include "host/content/fetcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include <poll.h>
#include <unistd.h>

#include "host/content/blob_fetch.h"
#include "host/content/download_client.h"
#include "host/content/verify_job.h"
#include "lib/base/clock.h"

namespace triton::content {

namespace {

constexpr milliseconds progress_interval{100};
/// After a cancel, the verifier has this long to write what is still in its pipes.
constexpr milliseconds flush_patience = std::chrono::seconds(1);
/// As long as a document may take to come.
constexpr milliseconds document_lease = std::chrono::hours(24);
constexpr int most_events = 256;  // of the downloader, in one round

role::Credentials credentials_of(Access const& access) {
    role::Credentials credentials{.hosts = {}, .proxies = access.proxies, .servers = access.servers};
    for (Credential const& each : access.credentials)
        credentials.hosts.push_back({each.host, each.user, each.password, each.token, each.identity_token});
    return credentials;
}

constexpr std::array<std::string_view, 6> phase_names{"waitingForLock", "connecting", "downloading",
                                                      "retrying",       "verifying",  "stored"};
static_assert(static_cast<std::size_t>(Progress::Phase::stored) == phase_names.size() - 1);

bool is_readable(int fd) {
    pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
    return fd >= 0 && ::poll(&waited, 1, 0) > 0;
}

/// Waits until a descriptor is readable or the time has come. Descriptors of -1 are ignored.
void wait_for(std::vector<int> const& fds, std::optional<TimePoint> wake) {
    std::vector<pollfd> waited;
    for (int const fd : fds)
        waited.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    int timeout = -1;
    if (wake) {
        auto const left = std::chrono::ceil<milliseconds>(*wake - steady_now()).count();
        timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
    }
    (void)::poll(waited.data(), waited.size(), timeout);  // EINTR: the caller looks again
}

/// One call of fetch_blobs().
class Round {
public:
    Round(FetchContext& context, std::span<BlobRequest const> requests, Watcher const& watcher)
        : context_(context), requests_(requests), watcher_(watcher), slots_(requests.size()) {}

    std::vector<Result<Blob>> run() {
        while (!is_done()) {
            if (is_readable(watcher_.cancel)) {
                cancel();
                break;
            }
            begin_more();
            TimePoint const now = steady_now();
            end_silence(now);
            for (Slot& slot : slots_)
                if (slot.is_active()) slot.fetch->step(now);
            report(now);
            if (is_done()) break;
            if (may_begin_more()) continue;  // some were over at once: the store had them, or there is no room
            wait();
            hear();
        }
        report(steady_now());
        std::vector<Result<Blob>> results;
        for (Slot& slot : slots_)
            results.push_back(slot.fetch->result());
        return results;
    }

private:
    struct Slot {
        std::unique_ptr<BlobFetch> fetch;
        TimePoint shown_at{};
        std::optional<Progress::Phase> shown = {};
        bool is_reported = false;

        [[nodiscard]] bool is_active() const { return fetch && !fetch->is_over(); }
    };

    [[nodiscard]] bool is_done() const {
        return std::ranges::all_of(slots_, [](Slot const& slot) { return slot.fetch && slot.fetch->is_over(); });
    }

    [[nodiscard]] unsigned most_active() const {
        return context_.access.bytes_per_second ? 1 : context_.settings.fetches;
    }
    [[nodiscard]] unsigned active() const {
        return static_cast<unsigned>(std::ranges::count_if(slots_, &Slot::is_active));
    }
    [[nodiscard]] bool may_begin_more() const {
        return active() < most_active() && std::ranges::any_of(slots_, [](Slot const& slot) { return !slot.fetch; });
    }

    void begin_more() {
        unsigned active = this->active();
        for (std::size_t i = 0; i < slots_.size() && active < most_active(); ++i) {
            if (slots_[i].fetch) continue;
            slots_[i].fetch = std::make_unique<BlobFetch>(context_, requests_[i], steady_now());
            ++active;
        }
    }

    void end_silence(TimePoint now) {
        bool any = false;
        for (Slot& slot : slots_) {
            if (!slot.is_active() || !slot.fetch->is_too_silent(now)) continue;
            any = true;
            slot.fetch->on_silence(now);
        }
        if (!any) return;
        context_.client.stop();
        Error const error{ErrorKind::timeout, "", "triton-download does not answer", {}, 0};
        for (Slot& slot : slots_)
            if (slot.is_active()) slot.fetch->on_downloader_ended(error, now);
    }

    void wait() {
        std::vector<int> fds{watcher_.cancel, context_.client.fd()};
        std::optional<TimePoint> wake;
        for (Slot& slot : slots_) {
            if (!slot.is_active()) continue;
            fds.push_back(slot.fetch->verify_fd());
            if (auto const at = slot.fetch->wake()) wake = wake ? std::min(*wake, *at) : *at;
        }
        wait_for(fds, wake);
    }

    void hear() {
        TimePoint const now = steady_now();
        for (int count = 0; count < most_events; ++count) {
            auto event = context_.client.next();
            if (!event) {
                for (Slot& slot : slots_)
                    if (slot.is_active()) slot.fetch->on_downloader_ended(event.error(), now);
                break;
            }
            if (!*event) break;
            // nobody knows an event of a cancelled download, and all are concerned when the downloader has failed
            for (Slot& slot : slots_)
                if (slot.is_active() && slot.fetch->on_download(**event, now)) break;
        }
        for (Slot& slot : slots_)
            if (slot.is_active()) slot.fetch->on_verify(now);
    }

    void report(TimePoint now) {
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            Slot& slot = slots_[i];
            if (!slot.fetch || slot.is_reported) continue;
            Progress progress = slot.fetch->progress();
            bool const is_due = slot.shown != progress.phase || now >= slot.shown_at + progress_interval;
            if (is_due && watcher_.progress) {
                slot.shown = progress.phase;
                slot.shown_at = now;
                progress.request = i;
                watcher_.progress(progress);
            }
            if (!slot.fetch->is_over()) continue;
            slot.is_reported = true;
            if (watcher_.finished) watcher_.finished(i, slot.fetch->result());
        }
    }

    void cancel() {
        context_.client.stop();
        TimePoint const until = steady_now() + flush_patience;
        while (steady_now() < until) {
            std::vector<int> fds;
            for (Slot& slot : slots_)
                if (slot.is_active() && slot.fetch->has_bytes_on_their_way()) fds.push_back(slot.fetch->verify_fd());
            if (fds.empty()) break;
            wait_for(fds, until);
            for (Slot& slot : slots_)
                if (slot.is_active()) slot.fetch->on_verify(steady_now());
        }
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            if (!slots_[i].fetch) slots_[i].fetch = std::make_unique<BlobFetch>(context_, requests_[i], steady_now());
            if (!slots_[i].fetch->is_over()) slots_[i].fetch->cancel(steady_now());
        }
    }

    FetchContext& context_;
    std::span<BlobRequest const> requests_;
    Watcher const& watcher_;
    std::vector<Slot> slots_;
};

}  // namespace

std::string_view name_of(Progress::Phase phase) { return phase_names[static_cast<std::size_t>(phase)]; }

struct Fetcher::State {
    Store& store;
    FetcherSettings settings;
    DownloadClient client;
};

Fetcher::Fetcher(Store& store, FetcherSettings settings) {
    role::RoleSettings role{.directory = settings.libexec};
    state_ = std::make_unique<State>(store, std::move(settings), DownloadClient(std::move(role)));
}
Fetcher::~Fetcher() = default;

Result<Blob> Fetcher::fetch_blob(Access const& access, BlobRequest const& request, Watcher const& watcher) {
    return std::move(fetch_blobs(access, {&request, 1}, watcher).front());
}

std::vector<Result<Blob>> Fetcher::fetch_blobs(Access const& access, std::span<BlobRequest const> requests,
                                               Watcher const& watcher) {
    auto const secrets = DownloadSecrets::make(credentials_of(access), access.authorities);
    if (!secrets) return {requests.size(), std::unexpected(secrets.error())};
    timespec time{};
    (void)::clock_gettime(CLOCK_MONOTONIC, &time);  // cannot fail
    auto const seed = static_cast<unsigned>(time.tv_nsec ^ ::getpid());
    FetchContext context{.store = state_->store,
                         .client = state_->client,
                         .secrets = *secrets,
                         .access = access,
                         .settings = state_->settings,
                         .passed_over = watcher.passed_over,
                         .random = std::minstd_rand(seed)};
    return Round(context, requests, watcher).run();
}

namespace {

/// Has a document that was fetched checked by the verifier.
Result<CheckedDocument> check_fetched(Store& store, std::string const& libexec, Blob const& blob,
                                      DocumentRequest const& request, int cancel) {
    auto file = store.open_blob(blob.digest);
    // `not_found` would mean that the server does not have it.
    if (!file && file.error().kind == ErrorKind::not_found) file.error().kind = ErrorKind::unavailable;
    if (!file) return std::unexpected(std::move(file).error());
    role::ReadDocument const order{
        .kind = request.kind,
        .expected = {.maximum = request.most_bytes, .size = blob.size, .digest = blob.digest},
        .media_type = request.facts.media_type.empty() ? blob.facts.media_type : request.facts.media_type};
    auto checked = check_document({.role = {.directory = libexec}, .cancel = cancel}, order, *std::move(file));
    if (checked) return checked;
    Error error = std::move(checked).error();
    std::string const& url = request.remote.urls.front();
    error.reason = error.text();
    error.attempted = "use " + url.substr(0, url.find_first_of("?#"));  // a query may hold what gives access
    return std::unexpected(std::move(error));
}

}  // namespace

Result<Document> Fetcher::fetch_document(Access const& access, DocumentRequest const& request, Watcher const& watcher) {
    Store& store = state_->store;
    // Without a lease, a gc() of another process may take it before it is read.
    Protection protection = request.protection;
    if (!protection.lease) protection.lease = TRY(store.make_lease("reading a document", document_lease));
    auto const blob = fetch_blob(access,
                                 {.remote = request.remote,
                                  .digest = request.digest,
                                  .size = request.size,
                                  .most_bytes = request.most_bytes,
                                  .facts = request.facts,
                                  .protection = protection},
                                 watcher);
    auto checked = blob ? check_fetched(store, state_->settings.libexec, *blob, request, watcher.cancel)
                        : Result<CheckedDocument>(std::unexpected(blob.error()));
    if (!request.protection.lease) (void)store.end_lease(*protection.lease);  // it ends by itself, too
    if (blob && (!request.is_kept || !checked)) {
        if (protection.owner) (void)store.remove_reference(*protection.owner, blob->digest);
        (void)store.discard(blob->digest);  // else gc() takes it
    }
    if (!checked) return std::unexpected(std::move(checked).error());
    return Document{.digest = std::move(checked->digest),
                    .size = checked->size,
                    .media_type = std::move(checked->media_type),
                    .json = std::move(checked->json)};
}

}  // namespace triton::content
