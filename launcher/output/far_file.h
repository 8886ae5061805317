#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "launcher/output/log_file.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// A log file on a file system that may hang (lib/base/far_files.h). A copy of the launcher, its writer, opens, writes
/// and rotates it; PID 1 only sends text, never waits, and keeps what the writer has not confirmed. A writer that was
/// killed is replaced, and the next one gets that text again: a line may then be in the file twice, but is not missing.
///
/// The channel is a pair of message sockets (unix(7), SOCK_SEQPACKET). To the writer: "w" and text, "o" to open the
/// file again. From it: "a COUNT" for bytes that are written now, "e CODE" with the lines ATTEMPTED and REASON when
/// error() changes. Since a writer outlives an upgrade, the next version speaks this, too.
class FarFile final : public LogFile {
public:
    /// Starts a writer. Returns our end of its channel.
    using Start = std::function<Result<UniqueFd>(Settings const&)>;
    static constexpr std::size_t longest_text = 32 * 1024;  ///< of one message
    static constexpr Duration time_to_answer = std::chrono::seconds(5);
    static constexpr Duration between_starts = std::chrono::seconds(1);

    /// `loop` outlives this.
    FarFile(EventLoop& loop, Settings settings, Start start)
        : LogFile(std::move(settings)), loop_(loop), start_(std::move(start)) {}
    ~FarFile() override;
    FarFile(FarFile const&) = delete;
    FarFile& operator=(FarFile const&) = delete;

    /// Starts its first writer. Errors: of `start`.
    Result<> begin();
    /// Takes over the writer of another instance, to which these first bytes of the text for restore() were sent.
    void adopt(UniqueFd channel, std::size_t sent);

    /// Asks the writer; how that ends is told by error().
    Result<> open() override;
    void write(std::string_view text) override;
    void flush() override;
    void drain(milliseconds limit) override;

    [[nodiscard]] std::size_t pending() const override { return text_.size() - confirmed_; }
    [[nodiscard]] bool is_mid_line() const override { return is_mid_line_; }
    /// ETIMEDOUT when the writer confirms nothing for a while and does not say why.
    [[nodiscard]] Error const& error() const override { return told_.code != 0 ? told_ : own_; }
    [[nodiscard]] std::string_view waiting() const override { return std::string_view(text_).substr(confirmed_); }
    void restore(std::string_view waiting, bool is_mid_line) override;

    [[nodiscard]] bool has_writer() const override { return true; }
    void when_moved(std::function<void()> call) override { moved_ = std::move(call); }
    void let_writer_end() override;
    [[nodiscard]] Handover handover() const override { return {channel_.get(), sent_ - confirmed_}; }

private:
    Result<> start_writer();
    void connect(UniqueFd channel);
    void send();
    void read_answers();
    void take_answer(std::string_view answer);
    void lose_writer();
    void see_whether_it_answers();

    EventLoop& loop_;
    Start start_;
    std::function<void()> moved_;
    UniqueFd channel_;
    EventLoop::Watch watch_;  // after what it watches, to be dropped before it
    std::string text_;
    std::size_t confirmed_ = 0;  // of text_
    std::size_t sent_ = 0;       // of text_, at least confirmed_
    std::size_t adopted_ = 0;    // of the text for restore()
    bool is_mid_line_ = false;
    bool is_to_open_ = false;
    bool is_to_end_ = false;  // the writer, when all is sent
    bool is_ending_ = false;  // it was told so
    TimePoint moved_at_{};    // the last confirmation, or since when there is something to confirm
    TimePoint next_start_{};
    Error told_;  // by the writer
    Error own_;
};

/// What starts a process that serves the launcher: see Children::start_companion().
using StartCompanion = std::function<Result<>(int kept, std::function<void()> const& work)>;
/// Starts a writer, in which `work` is called with its end of the channel. Returns ours. Errors: those of socketpair(2)
/// and fork(2). `path`: of the file, for errors.
Result<UniqueFd> start_writer(StartCompanion const& start, std::string const& path,
                              std::function<void(int channel)> const& work);

/// The writer's end: writes what comes by the channel (borrowed) until its other end is closed.
void write_for_other(int channel, LogFile& file);

}  // namespace triton::launcher
