#include "launcher/output/far_log.h"

#include <utility>

#include "lib/log/shared_file.h"

namespace triton::launcher {

using std::chrono::steady_clock;

FarLog::FarLog(EventLoop& loop, std::string path, FarFile::Start start, std::function<void(Error const&)> tell)
    : tell_(std::move(tell)),
      file_(loop, {.path = std::move(path)}, std::move(start)),
      timer_(loop, [this] { flush(); }) {
    file_.when_moved([this] { look(); });
}

void FarLog::adopt(UniqueFd channel, std::size_t sent, std::string_view waiting) {
    file_.adopt(std::move(channel), sent);
    file_.restore(waiting, false);
}

void FarLog::append(std::string_view line) {
    if (file_.has_room(line.size()))
        file_.write(line);
    else
        ++dropped_;
}

void FarLog::flush() {
    file_.flush();
    look();
}

void FarLog::look() {
    if (file_.pending() > 0)
        timer_.arm(steady_clock::now() + FarFile::between_starts);
    else
        timer_.disarm();
    Error const error = file_.error();
    if (error.code == std::exchange(told_, error.code) || error.code == 0) return;
    tell_(error);
}

// The writer's end.

namespace {

class WrittenLog final : public LogFile {
public:
    WrittenLog(std::string const& path, std::uint64_t max_size) : LogFile({.path = path}), file_(path, max_size) {}

    Result<> open() override { return file_.open(); }
    void write(std::string_view text) override {
        file_.output().append(text);
        flush();
    }
    void flush() override {
        Result<> tended = file_.tend();
        file_.output().flush();
        if (tended && file_.output().error() != 0) tended = fail(file_.output().error(), "write to " + settings().path);
        error_ = tended ? Error{} : std::move(tended.error());
        if (!tended && error_.code == 0) error_.code = EPERM;  // by its code an error is told from none
    }
    void drain(milliseconds) override { flush(); }
    [[nodiscard]] std::size_t pending() const override { return file_.output().pending(); }
    [[nodiscard]] bool is_mid_line() const override { return false; }
    [[nodiscard]] Error const& error() const override { return error_; }
    [[nodiscard]] std::string_view waiting() const override { return file_.output().waiting(); }
    void restore(std::string_view waiting, bool) override { file_.output().append(waiting); }

private:
    log::SharedFile file_;
    Error error_;
};

}  // namespace

void write_log_for_other(int channel, std::string const& path, std::uint64_t max_size) {
    WrittenLog file(path, max_size);
    write_for_other(channel, file);
}

}  // namespace triton::launcher
