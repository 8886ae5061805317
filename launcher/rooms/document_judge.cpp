#include "launcher/rooms/document_judge.h"

#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <string>
#include <utility>

#include <sys/mman.h>

#include "launcher/rooms/agent_host.h"
#include "lib/base/duration.h"
#include "lib/base/read_file.h"
#include "lib/base/signal_text.h"
#include "lib/base/write_all.h"

namespace triton::launcher {

namespace {

// Limits the time that passes, besides processor time: a trial may wait for a file system, or somebody may have stopped
// it.
constexpr milliseconds time_to_judge{10000};

using How = process::CommandRunner::How;

std::string processor_time() { return format_duration(std::chrono::seconds(CopyLimits::processor_seconds)); }

}  // namespace

void DocumentJudge::begin(SourceTexts texts) {
    texts_ = std::move(texts);
    variables_ = source_.variables;
    try {
        children_.run_command(judge_key, time_to_judge, [this] { return start(); });
    } catch (...) {
        texts_.reset();
        throw;
    }
}

Result<pid_t> DocumentJudge::start() {
    answer_ = UniqueFd{::memfd_create("triton-launch-verdict", MFD_CLOEXEC)};
    int const err = errno;
    if (!answer_) return fail(err, "make a memory file for the verdict");
    return children_.start_copy(answer_.get(), [this] {
        std::string const text = write_verdict(judge(*texts_, source_, environment_));
        if (!write_all(answer_.get(), text)) throw std::runtime_error("the verdict cannot be written");
    });
}

void DocumentJudge::cancel() {
    if (is_busy()) children_.cancel_command(judge_key);
}

std::optional<DocumentJudge::Judged> DocumentJudge::ended(Children::Outcome const& outcome) {
    if (!texts_) return std::nullopt;
    std::optional<Judged> judged;
    if (outcome.how != How::cancelled && outcome.how != How::not_started) {
        Verdict verdict = verdict_of(outcome);
        judged.emplace(std::move(*texts_), std::move(variables_), std::move(verdict));
    }
    texts_.reset();
    answer_ = {};
    return judged;
}

Result<Verdict> DocumentJudge::read_answer() const {
    if (::lseek(answer_.get(), 0, SEEK_SET) != 0) return fail(errno, "read the verdict of the helper");
    std::string const text = TRY(read_open_file(answer_.get(), "the verdict of the helper", longest_verdict));
    return read_verdict(text);
}

Verdict DocumentJudge::verdict_of(Children::Outcome const& outcome) const {
    std::string why;
    switch (outcome.how) {
        case How::exited:
            if (outcome.code == 0) {
                auto verdict = read_answer();
                if (verdict) return std::move(*verdict);
                why = verdict.error().text();
            } else {
                why = "checking it needs more than " + std::to_string(CopyLimits::memory >> 20) + " MiB of memory";
            }
            break;
        case How::signalled:
            why = outcome.code == SIGXCPU
                      ? "checking it takes more than " + processor_time() + " of the processor's time"
                      : "checking it was ended by " + signal_text(outcome.code);
            break;
        case How::timed_out: why = "checking it takes longer than " + format_duration(time_to_judge); break;
        case How::cancelled:
        case How::not_started: std::unreachable();  // see ended()
    }
    std::size_t const document = texts_->document ? hash_of(*texts_->document) : 0;
    return {.rejected = Rejected{.errors = {std::move(why)}, .document = document}};
}

}  // namespace triton::launcher
