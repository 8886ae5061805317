#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "launcher/output/far_file.h"
#include "launcher/output/log_file.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/log/line_output.h"

namespace triton::launcher {

/// The launcher's own log file where its file system may hang: see FarFile.
class FarLog final : public log::LineOutput {
public:
    /// `tell`: why lines do not get into the file, once for each reason. `loop` outlives this.
    FarLog(EventLoop& loop, std::string path, FarFile::Start start, std::function<void(Error const&)> tell);

    /// Starts its writer. Errors: of `start`.
    Result<> begin() { return file_.begin(); }
    /// Goes on with the writer of an earlier version, to which these first bytes of `waiting` were sent.
    void adopt(UniqueFd channel, std::size_t sent, std::string_view waiting);
    /// Has the writer open the file again.
    void reopen() { (void)file_.open(); }

    void append(std::string_view line) override;
    void flush() override;
    void drain(milliseconds limit) { file_.drain(limit); }
    [[nodiscard]] bool has_room(std::size_t bytes) const override { return file_.has_room(bytes); }

    [[nodiscard]] LogFile::Handover handover() const { return file_.handover(); }
    [[nodiscard]] std::string_view waiting() const { return file_.waiting(); }

private:
    void look();

    std::function<void(Error const&)> tell_;
    FarFile file_;
    EventLoop::Timer timer_;
    int told_ = 0;  // the code of the latest error
};

/// The writer's end: see write_for_other(). `max_size`: as of log::SharedFile.
void write_log_for_other(int channel, std::string const& path, std::uint64_t max_size);

}  // namespace triton::launcher
