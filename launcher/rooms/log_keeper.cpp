#include "launcher/rooms/log_keeper.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "lib/base/far_files.h"

namespace triton::launcher {

LogKeeper::LogKeeper(log::Log::Settings const& settings, EventLoop& loop, log::Log& log, StartCompanion start,
                     std::optional<FileAsker> asker)
    : settings_(settings), loop_(loop), log_(log), start_(std::move(start)), asker_(asker) {}

LogKeeper::~LogKeeper() {
    if (far_) log_.let_write_file(nullptr);
}

Result<> LogKeeper::open() {
    if (hangs()) {
        auto far = make_far();
        TRY(far->begin());
        leave_to(std::move(far));
        return {};
    }
    TRY(log_.open_file());
    judge();
    return {};
}

/// Whether its file system hangs just now.
bool LogKeeper::hangs() {
    if (!start_ || !asker_ || settings_.path.empty() || !may_any_file_hang()) return false;
    return !asker_->ask([this] {
        (void)::access(settings_.path.c_str(), F_OK);
        return std::string();
    });
}

/// Lets another process write a file whose file system may hang.
void LogKeeper::judge() {
    judged_ = log_.file();
    if (!start_ || judged_ < 0 || !may_hang(judged_)) return;
    auto far = make_far();
    if (Result<> const begun = far->begin(); !begun) {
        std::string const reason = begun.error().text();
        return log_.write(log::LogLevel::warning, "log-writer-failed", reason, {{"error", std::string_view(reason)}});
    }
    leave_to(std::move(far));
}

void LogKeeper::leave_to(std::unique_ptr<FarLog> far) {
    log_.let_write_file(far.get());
    far_ = std::move(far);
    judged_ = log_.file();  // none
}

std::unique_ptr<FarLog> LogKeeper::make_far() {
    auto const start = [this](LogFile::Settings const& file) {
        return start_writer(start_, file.path,
                            [&](int channel) { write_log_for_other(channel, settings_.path, settings_.max_size); });
    };
    return std::make_unique<FarLog>(loop_, settings_.path, start, [this](Error const& error) {
        log_.write(log::LogLevel::warning, "log-write-failed", error.text() + "; trying again",
                   {{"error", std::string_view(error.text())}});
    });
}

void LogKeeper::reopen() {
    if (far_) far_->reopen();
    Result<bool> const reopened = far_ ? Result<bool>(true) : log_.reopen_file(true);
    if (!reopened) {
        log_.write(log::LogLevel::warning, "log-reopen-failed", reopened.error().text(),
                   {{"error", std::string_view(reopened.error().text())}});
    } else if (*reopened) {
        log_.write(log::LogLevel::info, "log-reopened", "log file " + settings_.path + " opened again",
                   {{"path", std::string_view(settings_.path)}});
        if (!far_) judge();
    }
}

void LogKeeper::drain(milliseconds limit) {
    if (far_) far_->drain(limit);
}

void LogKeeper::save(UpgradeState& state) const {
    if (!far_) return;
    LogFile::Handover const handover = far_->handover();
    state.log_writer = {.channel = handover.channel, .sent = handover.sent, .waiting = std::string(far_->waiting())};
}

Result<> LogKeeper::restore(UpgradeState& state) {
    if (!state.log_writer) return open();
    UniqueFd channel{state.log_writer->channel};
    if (settings_.path.empty()) return {};
    auto far = make_far();
    if (channel)
        far->adopt(std::move(channel), state.log_writer->sent, state.log_writer->waiting);
    else
        far->append(state.log_writer->waiting);
    leave_to(std::move(far));
    return {};
}

}  // namespace triton::launcher
