#include "host/content/blob_fetch.h"

#include <algorithm>
#include <cerrno>

#include <sys/stat.h>

#include "host/content/landed_in_file.h"

namespace triton::content {

namespace {

constexpr milliseconds lock_interval{50};
constexpr milliseconds journal_interval = std::chrono::seconds(1);
/// Earlier failures are forgiven once this much has arrived. A single byte is not enough: a server could go on for
/// ever.
constexpr std::uint64_t progress_bytes = 256 * 1024;
constexpr std::size_t most_samples = 16;
constexpr milliseconds sample_interval{250};

std::vector<role::Interval> as_messages(Intervals const& intervals) {
    std::vector<role::Interval> messages;
    for (Interval const& interval : intervals.list())
        messages.push_back({interval.begin, interval.length()});
    return messages;
}

Intervals from_messages(std::vector<role::Interval> const& messages) {
    Intervals intervals;
    for (role::Interval const& message : messages)
        intervals.add({message.offset, message.offset + message.length});
    return intervals;
}

std::string key_of(BlobRequest const& request) {
    if (request.digest) return request.digest->text();
    return "url " + request.remote.urls.front();
}

role::DownloadFailed transient(ErrorKind kind, std::string reason) {
    return {.id = 0, .kind = kind, .reason = std::move(reason), .is_transient = true};
}

/// A text that comes from a server, or from a downloader that was taken over, without control characters.
std::string cleaned(std::string const& text) {
    return role::error_of({.kind = ErrorKind::internal, .attempted = {}, .reason = text, .details = {}}).reason;
}

bool is_of_another_version(role::DownloadFailed const& failure) {
    return failure.kind == ErrorKind::corrupt && (failure.status == 200 || failure.status == 206);
}

bool knows_no_ranges(role::DownloadFailed const& failure) {
    return failure.kind == ErrorKind::unsupported && failure.status == 200;
}

}  // namespace

void Rate::add(TimePoint now, std::uint64_t bytes) {
    if (!samples_.empty() && now - samples_.back().at < sample_interval) return;
    samples_.push_back({now, bytes});
    if (samples_.size() > most_samples) samples_.pop_front();
}

std::uint64_t Rate::per_second() const {
    if (samples_.size() < 2 || samples_.back().bytes <= samples_.front().bytes) return 0;
    auto const time = std::chrono::duration_cast<milliseconds>(samples_.back().at - samples_.front().at);
    return (samples_.back().bytes - samples_.front().bytes) * 1000 / static_cast<std::uint64_t>(time.count());
}

BlobFetch::BlobFetch(FetchContext& context, BlobRequest const& request, TimePoint now)
    : context_(context),
      request_(request),
      lock_deadline_(now + context.settings.lock_patience),
      wake_(now),
      heard_at_(now),
      size_(request.size),
      retry_(context.settings.retry) {
    if (request_.remote.urls.empty()) {
        give_up(error_of(ErrorKind::invalid, "there is no URL"));
        return;
    }
    mirrors_left_ = request_.remote.urls.size() - 1;
    if (size_ && *size_ > request_.most_bytes)
        give_up(error_of(ErrorKind::refused, "it has " + std::to_string(*size_) + " bytes, and at most " +
                                                 std::to_string(request_.most_bytes) + " may come"));
}

std::string BlobFetch::shown_url() const {
    if (request_.remote.urls.empty()) return "nothing";
    std::string const& url = request_.remote.urls.front();
    return url.substr(0, url.find_first_of("?#"));  // a query may hold what gives access
}

Error BlobFetch::error_of(ErrorKind kind, std::string reason) const {
    return {kind, "fetch " + shown_url(), std::move(reason), {}, 0};
}

std::optional<TimePoint> BlobFetch::wake() const {
    auto const late = silent_until();
    if (!wake_ || !late) return wake_ ? wake_ : late;
    return std::min(*wake_, *late);
}

/// Returns when a role counts as silent. The downloader itself gives up on silent servers, well before this.
std::optional<TimePoint> BlobFetch::silent_until() const {
    if (is_over()) return std::nullopt;
    if (phase_ == Progress::Phase::verifying)
        return heard_at_ + context_.settings.role_silence + std::chrono::seconds(size_.value_or(0) >> 20);
    if (streams_.empty()) return std::nullopt;
    bool const is_told = std::ranges::any_of(streams_, &Stream::is_told);
    if (is_told) return heard_at_ + context_.settings.role_silence;  // what has arrived is still in a pipe
    return heard_at_ + context_.settings.role_silence + 2 * context_.access.stall * (request_.remote.urls.size() + 1);
}

bool BlobFetch::is_too_silent(TimePoint now) const {
    auto const late = silent_until();
    return late && *late <= now;
}

void BlobFetch::on_silence(TimePoint now) {
    heard_at_ = now;
    if (phase_ == Progress::Phase::verifying)
        return give_up(error_of(ErrorKind::timeout, "triton-verify does not end"));
    for (Stream& stream : streams_)
        if (stream.is_told && !stream.has_ended)  // the pipe is held open, or the verifier does not read it
            return give_up(error_of(ErrorKind::timeout, "triton-download does not close its pipe"));
}

void BlobFetch::step(TimePoint now) {
    if (is_over() || !wake_ || *wake_ > now) return;
    wake_.reset();
    if (phase_ == Progress::Phase::waiting_for_lock) return lock(now);
    if (phase_ != Progress::Phase::retrying) return;
    if (job_) {
        phase_ = Progress::Phase::downloading;
        fill(now);
    } else {
        begin_attempt(now);
    }
}

// From the beginning to the first request.

void BlobFetch::lock(TimePoint now) {
    auto ingest = context_.store.begin_ingest(key_of(request_), now);
    if (!ingest && ingest.error().kind == ErrorKind::timeout && now < lock_deadline_) {
        wake_ = now + lock_interval;
        return;
    }
    if (!ingest) return give_up(std::move(ingest.error()));
    ingest_ = *std::move(ingest);
    if (auto const prepared = prepare(); !prepared) return give_up(prepared.error());
    if (!is_over()) begin_attempt(now);
}

/// Looks at what exists already: the blob itself, or a part of it.
Result<> BlobFetch::prepare() {
    if (request_.digest) {
        auto blob = TRY(context_.store.find(*request_.digest));
        // gc() may remove the blob between the two calls; then it is fetched.
        bool const is_safe =
            blob && (request_.protection.is_none() ||
                     TRY(context_.store.protect(request_.protection, *request_.digest)));
        if (is_safe) {
            TRY(context_.store.abandon(*std::exchange(ingest_, std::nullopt)));
            phase_ = Progress::Phase::stored;
            resumed_ = blob->size;
            result_ = *std::move(blob);
            return {};
        }
    }
    auto journal = read_journal(ingest_->directory());
    bool const is_the_same = journal && (!size_ || !journal->size || *size_ == *journal->size) &&
                             (size_ || journal->size) && (request_.digest || !journal->entity_tag.empty());
    if (is_the_same) {
        journal_ = *std::move(journal);
        if (!size_) size_ = journal_.size;
        journal_.landed = landed_in_file(ingest_->fd(), journal_.landed);
        journal_.landed.remove({*size_, UINT64_MAX});
        if (journal_.landed.list().size() > role::most_intervals) journal_.landed = {};
    } else {
        TRY(ingest_->restart());
    }
    journal_.size = size_;
    resumed_ = journal_.landed.bytes();
    if (size_) TRY(ingest_->reserve(*size_));
    return {};
}

void BlobFetch::begin_attempt(TimePoint now) {
    is_trusting_journal_ = is_trusting_journal_ || !journal_.landed.empty();
    plan_.reset();
    if (size_) {
        plan_.emplace(
            *size_, journal_.landed,
            RangePlan::Settings{.range_bytes = context_.settings.range_bytes,
                                .parallel_from = in_one_piece_ ? UINT64_MAX : context_.settings.parallel_from});
    }
    if (!plan_ || !plan_->is_complete() || *size_ == 0) return send_probe(now);
    if (auto const started = start_job(); !started) return give_up(started.error());
    end_if_complete(now);
}

void BlobFetch::send_probe(TimePoint now) {
    phase_ = Progress::Phase::connecting;
    heard_at_ = now;
    Interval range{0, UINT64_MAX};
    bool is_ranged = false;
    if (plan_ && *size_ == 0) {
        range = {0, 0};
    } else if (plan_) {
        range = *plan_->take();
        is_ranged = range != Interval{0, *size_};
    }
    if (auto const sent = send(range, is_ranged, true); !sent)
        try_again_later(transient(sent.error().kind, sent.error().text()), now);
}

Result<> BlobFetch::send(Interval range, bool is_ranged, bool is_probe) {
    role::Download download;
    download.urls = request_.remote.urls;
    download.maximum = size_.value_or(request_.most_bytes);
    download.accept = request_.remote.accept;
    download.scope = request_.remote.scope;
    download.bytes_per_second = context_.access.bytes_per_second;
    download.stall_milliseconds = static_cast<std::uint64_t>(context_.access.stall.count());
    if (is_ranged) {
        download.offset = range.begin;
        download.length = range.length();
        if (is_probe)
            download.whole_length = *size_ - range.begin;
        else if (in_one_piece_)
            download.whole_length = range.length();
        // It is the first URL's.
        if (rotations_ == 0 && !distrusts_tags_) download.if_range = journal_.entity_tag;
    }
    auto started = TRY(context_.client.start(std::move(download), context_.secrets));
    streams_.push_back({.id = started.id, .range = range, .is_probe = is_probe, .pipe = std::move(started.pipe)});
    if (!is_probe) TRY(hand_to_verifier(streams_.back()));
    return {};
}

void BlobFetch::fill(TimePoint now) {
    std::size_t const most = in_one_piece_ || context_.access.bytes_per_second ? 1 : context_.settings.streams;
    while (plan_ && streams_.size() < most) {
        auto const range = plan_->take();
        if (!range) break;
        if (auto const sent = send(*range, true, false); !sent) {
            plan_->ended(*range, 0);
            return give_up(sent.error());
        }
    }
    end_if_complete(now);
}

// What the downloader reports.

bool BlobFetch::on_download(DownloadClient::Event const& event, TimePoint now) {
    if (auto const* const failed = std::get_if<role::Failed>(&event)) {
        give_up(role::error_of(*failed));
        return false;
    }
    auto const id_of = [](auto const& message) -> std::uint32_t {
        if constexpr (requires { message.id; }) return message.id;
        return 0;
    };
    std::uint32_t const id = std::visit(id_of, event);
    auto const stream = std::ranges::find(streams_, id, &Stream::id);
    if (stream == streams_.end() || stream->is_told) return stream != streams_.end();
    heard_at_ = now;
    if (auto const* const answer = std::get_if<role::Answer>(&event)) {
        on_answer(*stream, *answer, now);
        return true;
    }
    stream->is_told = true;
    if (auto const* const failure = std::get_if<role::DownloadFailed>(&event)) {
        stream->failure = *failure;
        stream->failure->reason = cleaned(failure->reason);
    }
    settle(now);
    return true;
}

void BlobFetch::on_downloader_ended(Error const& error, TimePoint now) {
    for (Stream& stream : streams_) {
        if (stream.is_told) continue;
        stream.is_told = true;
        stream.failure =
            transient(error.kind == ErrorKind::timeout ? ErrorKind::timeout : ErrorKind::unavailable, error.text());
    }
    settle(now);
}

void BlobFetch::on_answer(Stream& stream, role::Answer const& answer, TimePoint now) {
    if (!stream.is_probe || !stream.pipe) return;  // for all others only the bytes count
    report_passed_over(answer);
    if (size_ && answer.size && *answer.size != *size_) return on_wrong_size(*answer.size, now);
    // The downloader itself refuses this, unless somebody has taken it over.
    if (answer.size && *answer.size > request_.most_bytes) {
        return give_up(error_of(ErrorKind::corrupt, "the server has " + std::to_string(*answer.size) +
                                                        " bytes, and at most " + std::to_string(request_.most_bytes) +
                                                        " may come"));
    }
    if (auto const taken = take_answer(stream, answer); !taken) return give_up(taken.error());
    phase_ = Progress::Phase::downloading;
    note(now, true);
    if (!in_one_piece_ && plan_) fill(now);
}

void BlobFetch::report_passed_over(role::Answer const& answer) const {
    if (!context_.passed_over) return;
    for (role::PassedOver const& one : answer.passed_over)
        context_.passed_over({.host = cleaned(one.host), .reason = cleaned(one.reason)});
}

/// Its source has something else. What has landed may be good, unless it is all that tells the size.
void BlobFetch::on_wrong_size(std::uint64_t size, TimePoint now) {
    if (!request_.size && is_trusting_journal_ && start_over(now)) return;
    Error const error = error_of(
        ErrorKind::corrupt, "the server has " + std::to_string(size) + " bytes instead of " + std::to_string(*size_));
    if (!next_mirror()) return give_up(error);
    if (plan_) journal_.landed = plan_->landed();
    drop_transfers();
    begin_attempt(now);
}

/// Turns to another source after one that has given something else than it should. Returns whether there is one.
bool BlobFetch::next_mirror() {
    auto& urls = request_.remote.urls;
    std::size_t const tried = urls.size() > 1 && role::is_plain_form(urls[0], urls[1]) ? 2 : 1;
    if (mirrors_left_ < tried || !request_.digest) return false;
    mirrors_left_ -= tried;
    std::ranges::rotate(urls, urls.begin() + static_cast<std::ptrdiff_t>(tried));
    ++rotations_;
    return true;
}

Result<> BlobFetch::take_answer(Stream& stream, role::Answer const& answer) {
    if (request_.facts.media_type.empty()) request_.facts.media_type = answer.media_type;
    if (rotations_ == 0) journal_.entity_tag = distrusts_tags_ ? "" : answer.etag.substr(0, 256);
    if (!size_ && answer.size) {
        size_ = answer.size;
        stream.range.end = *size_;
        TRY(ingest_->reserve(*size_));
        plan_.emplace(*size_, Intervals{}, RangePlan::Settings{.parallel_from = UINT64_MAX});
        (void)plan_->take();
        in_one_piece_ = true;
    }
    bool const gives_all = answer.status == 200 && size_;
    if (gives_all && stream.range.end != *size_) {
        // The answer also contains everything behind the range; what had landed there is downloaded once more.
        in_one_piece_ = true;
        journal_.landed = Intervals({{0, stream.range.begin}});
        plan_.emplace(*size_, journal_.landed, RangePlan::Settings{.parallel_from = UINT64_MAX});
        stream.range = *plan_->take();
    }
    journal_.size = size_;
    TRY(start_job());
    return hand_to_verifier(stream);
}

Result<> BlobFetch::start_job() {
    writer_ = TRY(ingest_->open_for_writing());
    role::Expected const expected{.maximum = size_.value_or(request_.most_bytes),
                                  .size = size_,
                                  .digest = request_.digest,
                                  .sha1 = request_.sha1};
    job_ = TRY(VerifyJob::start({.role = {.directory = context_.settings.libexec}}, expected, writer_.get(),
                                as_messages(journal_.landed)));
    return {};
}

Result<> BlobFetch::hand_to_verifier(Stream& stream) {
    std::optional<std::uint64_t> length;
    if (stream.range.end != UINT64_MAX) length = stream.range.length();
    return job_->add_range(stream.id, stream.range.begin, length, std::move(stream.pipe));
}

/// Deals with streams that both the downloader and the verifier have finished.
void BlobFetch::settle(TimePoint now) {
    for (std::size_t i = 0; i < streams_.size() && !is_over();) {
        bool const is_over_now = streams_[i].is_told && (streams_[i].has_ended || streams_[i].pipe);
        if (!is_over_now) {
            ++i;
            continue;
        }
        Stream const stream = std::move(streams_[i]);
        streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
        on_stream_over(stream, now);
        i = 0;  // much may have changed
    }
}

void BlobFetch::on_stream_over(Stream const& stream, TimePoint now) {
    if (plan_) plan_->ended(stream.range, stream.received);
    if (plan_ && stream.received >= progress_bytes) retry_.progressed();  // of unknown size: nothing of it is kept
    if (stream.failure) return on_failure(*stream.failure, now);
    bool const is_short = stream.range.end != UINT64_MAX && stream.received < stream.range.length();
    if (is_short || stream.pipe)
        return on_failure(transient(ErrorKind::unavailable, "the transfer has ended early"), now);
    retry_.progressed();
    if (!plan_) {
        size_ = stream.received;
        plan_.emplace(*size_, Intervals({{0, *size_}}), RangePlan::Settings{});
    }
    if (phase_ == Progress::Phase::retrying) return end_if_complete(now);
    fill(now);
}

void BlobFetch::on_failure(role::DownloadFailed const& failure, TimePoint now) {
    bool const is_stale = is_of_another_version(failure) || failure.status == 416;
    if (is_stale && is_trusting_journal_ && start_over(now)) return;
    // Servers behind one name may give one file several entity tags. Then only its digest tells which file it is.
    bool const is_verified = request_.digest || request_.sha1;
    if (is_of_another_version(failure) && is_verified && !journal_.entity_tag.empty() &&
        !std::exchange(distrusts_tags_, true)) {
        has_started_over_ = false;
        if (start_over(now)) return;
    }
    if (knows_no_ranges(failure) && !in_one_piece_) {
        in_one_piece_ = true;
        if (plan_) journal_.landed = plan_->landed();
        drop_transfers();
        return begin_attempt(now);
    }
    if (!plan_ && job_) {
        // A download of unknown size cannot be resumed.
        drop_transfers();
        if (auto const emptied = ingest_->restart(); !emptied) return give_up(emptied.error());
        journal_ = {};
    }
    try_again_later(failure, now);
}

void BlobFetch::try_again_later(role::DownloadFailed const& failure, TimePoint now) {
    if (phase_ == Progress::Phase::retrying && wake_ && *wake_ > now) return;  // another range has reported it before
    std::optional<milliseconds> asked;
    if (failure.retry_after_milliseconds)
        asked = milliseconds(std::min<std::uint64_t>(*failure.retry_after_milliseconds, INT32_MAX));
    auto const wait = retry_.after(failure.is_transient ? FailureClass::transient : FailureClass::permanent, asked,
                                   static_cast<std::uint32_t>(context_.random()));
    if (!wait) return give_up(error_of(failure.kind, failure.reason));
    // Mirrors may differ, and only a digest would tell.
    if (request_.digest && request_.remote.urls.size() > 1) {
        std::ranges::rotate(request_.remote.urls, request_.remote.urls.begin() + 1);
        ++rotations_;
    }
    waiting_for_ = failure.reason;
    phase_ = Progress::Phase::retrying;
    wake_ = now + *wait;
}

// What the verifier reports.

void BlobFetch::on_verify(TimePoint now) {
    // The verifier controls how many messages there are; each one that breaks its rules ends it.
    while (job_ && !is_over()) {
        auto event = job_->next(std::chrono::steady_clock::now());
        if (!event && event.error().kind == ErrorKind::timeout) break;
        if (!event) return on_verify_error(event.error(), now);
        if (auto const* const landed = std::get_if<role::Landed>(&*event)) {
            if (landed->bytes > journal_.landed.bytes()) heard_at_ = now;
            journal_.landed = from_messages(landed->intervals);
            rate_.add(now, landed->bytes);
            note(now, false);
        } else if (auto const* const ended = std::get_if<role::RangeEnded>(&*event)) {
            auto const stream = std::ranges::find(streams_, ended->id, &Stream::id);
            if (stream == streams_.end()) continue;
            heard_at_ = now;
            stream->has_ended = true;
            stream->received = ended->received;
            journal_.landed.add({stream->range.begin, stream->range.begin + ended->received});
            settle(now);
        } else if (auto const* const killed = std::get_if<VerifyJob::Killed>(&*event)) {
            on_verifier_killed(*killed, now);
        } else {
            on_verified(std::get<role::Verified>(*event));
        }
    }
}

void BlobFetch::end_if_complete(TimePoint now) {
    if (is_over() || !job_ || !streams_.empty() || !plan_ || !plan_->is_complete()) return;
    phase_ = Progress::Phase::verifying;
    heard_at_ = now;
    wake_.reset();
    journal_.landed = plan_->landed();
    note(now, true);
    if (auto const ended = job_->end(*size_); !ended) give_up(ended.error());
}

/// Says nothing about the bytes: the kernel may have been short of memory.
void BlobFetch::on_verifier_killed(VerifyJob::Killed const& killed, TimePoint now) {
    drop_transfers();
    if (!plan_) journal_ = {};  // a download of unknown size cannot be resumed
    if (auto const emptied = plan_ ? Result<>() : ingest_->restart(); !emptied) return give_up(emptied.error());
    try_again_later(transient(ErrorKind::unavailable, killed.how), now);
}

void BlobFetch::on_verify_error(Error const& error, TimePoint now) {
    drop_transfers();
    if (error.kind != ErrorKind::corrupt) return give_up(error);
    // Bytes from an earlier run may be to blame, so all is fetched again, once.
    if (is_trusting_journal_ && start_over(now)) return;
    if (next_mirror()) {
        has_started_over_ = false;
        if (start_over(now)) return;
    }
    Error const fault = error_of(ErrorKind::corrupt, error.text());
    journal_ = {};
    give_up(fault);
}

bool BlobFetch::start_over(TimePoint now) {
    if (std::exchange(has_started_over_, true)) return false;
    drop_transfers();
    if (!ingest_->restart()) return false;
    is_trusting_journal_ = false;
    resumed_ = 0;
    journal_ = {.size = request_.size};
    size_ = request_.size;
    in_one_piece_ = false;
    if (size_ && !ingest_->reserve(*size_)) return false;
    begin_attempt(now);
    return true;
}

void BlobFetch::on_verified(role::Verified const& verified) {
    job_.reset();
    auto const proven = prove_unwritable(std::move(writer_));
    if (!proven) return give_up(proven.error());
    if (request_.facts.source.empty()) request_.facts.source = shown_url();
    auto blob = context_.store.commit(*std::exchange(ingest_, std::nullopt), verified.digest, request_.facts,
                                      request_.protection);
    if (!blob) return give_up(std::move(blob.error()));
    phase_ = Progress::Phase::stored;
    journal_.landed = Intervals({{0, blob->size}});
    result_ = *std::move(blob);
}

// The end of a fetch.

void BlobFetch::drop_transfers() {
    for (Stream const& stream : streams_)
        if (!stream.is_told) context_.client.cancel(stream.id);
    streams_.clear();
    job_.reset();
    writer_ = UniqueFd();
}

void BlobFetch::note(TimePoint now, bool at_once) {
    if (!ingest_ || (!at_once && now < noted_at_ + journal_interval)) return;
    noted_at_ = now;
    // If the journal cannot be written, the next start takes longer, and nothing else is lost.
    (void)write_journal(ingest_->directory(), journal_);
}

bool BlobFetch::has_bytes_on_their_way() const {
    return job_ && std::ranges::any_of(streams_, [](Stream const& stream) { return !stream.has_ended; });
}

void BlobFetch::cancel(TimePoint now) {
    note(now, true);
    give_up({ErrorKind::refused, "", "cancelled", {}, 0});
}

void BlobFetch::give_up(Error error) {
    drop_transfers();
    if (ingest_ && journal_.landed.empty())
        (void)context_.store.abandon(*std::exchange(ingest_, std::nullopt));  // otherwise gc() removes it
    else if (ingest_)
        (void)write_journal(ingest_->directory(), journal_);
    ingest_.reset();
    wake_.reset();
    result_ = std::unexpected(std::move(error));
}

Progress BlobFetch::progress() const {
    return {.phase = phase_,
            .bytes = journal_.landed.bytes(),
            .size = size_,
            .resumed = resumed_,
            .bytes_per_second = rate_.per_second(),
            .waiting_for = waiting_for_};
}

}  // namespace triton::content
