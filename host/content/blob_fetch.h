#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "host/content/download_client.h"
#include "host/content/fetcher.h"
#include "host/content/journal.h"
#include "host/content/range_plan.h"
#include "host/content/verify_job.h"

namespace triton::content {

/// What all fetches of one call share.
struct FetchContext {
    Store& store;
    DownloadClient& client;
    DownloadSecrets const& secrets;
    Access const& access;
    FetcherSettings const& settings;
    std::function<void(role::PassedOver const&)> const& passed_over;
    std::minstd_rand random;  ///< for jitter only
};

/// The number of bytes that have arrived lately, per second.
class Rate {
public:
    void add(TimePoint now, std::uint64_t bytes);
    [[nodiscard]] std::uint64_t per_second() const;

private:
    struct Sample {
        TimePoint at;
        std::uint64_t bytes;
    };
    std::deque<Sample> samples_;
};

/// Brings one blob into the store: a state machine that never waits; its caller polls.
///
///     locking --> asking --answer--> receiving --all there--> verifying --> over
///                   |  ^                |  ^
///                   v  |                v  |
///                 pausing             pausing     (a failure that may pass; other ranges continue meanwhile)
///
/// It begins with one range, whose answer tells whether the server supports ranges. If so, more go side by side; if
/// not, all the rest comes with that answer. Bytes that turn out to be wrong, or of another version of the file, are
/// thrown away once, and everything is fetched again.
class BlobFetch {
public:
    BlobFetch(FetchContext& context, BlobRequest const& request, TimePoint now);

    /// Does what is due. To be called after each event, and when wake() has come.
    void step(TimePoint now);
    [[nodiscard]] std::optional<TimePoint> wake() const;
    /// Whether a role has been silent for longer than its work can take. The caller then calls
    /// on_silence(), ends the downloader, and calls on_downloader_ended().
    [[nodiscard]] bool is_too_silent(TimePoint now) const;
    void on_silence(TimePoint now);

    /// Returns whether the event belongs to one of its downloads. A failure of the downloader itself belongs to all:
    /// this gives up.
    bool on_download(DownloadClient::Event const& event, TimePoint now);
    /// To be called when the downloader has ended, and with it all downloads.
    void on_downloader_ended(Error const& error, TimePoint now);

    /// -1: nothing is being verified.
    [[nodiscard]] int verify_fd() { return job_ ? job_->fd() : -1; }
    void on_verify(TimePoint now);

    /// Gives up and keeps what is there. Returns whether the verifier still has bytes to write: then it is worth
    /// calling on_verify() for a moment, once the downloader has ended.
    [[nodiscard]] bool has_bytes_on_their_way() const;
    void cancel(TimePoint now);

    [[nodiscard]] bool is_over() const { return result_.has_value(); }
    [[nodiscard]] Result<Blob> const& result() const { return *result_; }
    [[nodiscard]] Progress progress() const;

private:
    /// One range that is being downloaded.
    struct Stream {
        std::uint32_t id = 0;
        Interval range;
        bool is_probe = false;   // the first of an attempt, whose answer decides
        UniqueFd pipe = {};      // until the verifier has it
        bool is_told = false;    // the downloader has said how it ended
        bool has_ended = false;  // the verifier has seen the end of its pipe
        std::uint64_t received = 0;
        std::optional<role::DownloadFailed> failure = {};
    };

    [[nodiscard]] std::optional<TimePoint> silent_until() const;
    void lock(TimePoint now);
    Result<> prepare();
    void begin_attempt(TimePoint now);
    void send_probe(TimePoint now);
    Result<> send(Interval range, bool is_ranged, bool is_probe);
    void fill(TimePoint now);

    void on_answer(Stream& stream, role::Answer const& answer, TimePoint now);
    void report_passed_over(role::Answer const& answer) const;
    Result<> take_answer(Stream& stream, role::Answer const& answer);
    Result<> start_job();
    Result<> hand_to_verifier(Stream& stream);
    void settle(TimePoint now);
    void on_stream_over(Stream const& stream, TimePoint now);
    void on_failure(role::DownloadFailed const& failure, TimePoint now);
    void try_again_later(role::DownloadFailed const& failure, TimePoint now);
    void end_if_complete(TimePoint now);
    void on_wrong_size(std::uint64_t size, TimePoint now);
    void on_verify_error(Error const& error, TimePoint now);
    void on_verifier_killed(VerifyJob::Killed const& killed, TimePoint now);
    void on_verified(role::Verified const& verified);

    void drop_transfers();
    bool next_mirror();
    /// Begins again with the first byte; this is possible once. Returns whether it was.
    bool start_over(TimePoint now);
    void note(TimePoint now, bool at_once);
    void give_up(Error error);
    [[nodiscard]] Error error_of(ErrorKind kind, std::string reason) const;
    [[nodiscard]] std::string shown_url() const;

    FetchContext& context_;
    BlobRequest request_;
    TimePoint lock_deadline_;
    Progress::Phase phase_ = Progress::Phase::waiting_for_lock;
    std::optional<TimePoint> wake_;
    TimePoint heard_at_;  // when a role was heard last
    std::optional<Ingest> ingest_;
    std::optional<std::uint64_t> size_;
    Journal journal_;  // what the file is known to have, even before a verifier says so
    std::uint64_t resumed_ = 0;
    TimePoint noted_at_{};
    std::optional<RangePlan> plan_;  // unknown as long as the size is
    std::vector<Stream> streams_;
    std::optional<VerifyJob> job_;
    UniqueFd writer_;
    Retry retry_;
    std::string waiting_for_;
    Rate rate_;
    bool in_one_piece_ = false;  // the server does not support ranges
    bool has_started_over_ = false;
    bool distrusts_tags_ = false;       // the entity tags of the first URL
    bool is_trusting_journal_ = false;  // some of it was there before this attempt
    std::size_t rotations_ = 0;         // of the URLs
    std::size_t mirrors_left_ = 0;      // those that may give other bytes
    std::optional<Result<Blob>> result_;
};

}  // namespace triton::content
