#include "programs/imgadm/context.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <poll.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/base/root_prefix.h"
#include "lib/base/write_all.h"
#include "lib/text/printable.h"

namespace triton::program {

namespace {

ProgressMode mode_of(GlobalOptions const& options) {
    std::string_view const name = options.progress;
    if (name == "json") return ProgressMode::json;
    if (name == "none") return ProgressMode::none;
    if (name == "line") return ProgressMode::line;
    bool const is_terminal = ::isatty(STDERR_FILENO) == 1;
    return options.is_verbose && !is_terminal ? ProgressMode::lines : ProgressMode::automatic;
}

}  // namespace

image::Settings Context::settings() const {
    image::Settings settings;
    char const* const root = std::getenv("TRITON_ROOT");
    settings.root = root_prefix(!options_->root.empty() ? options_->root : root ? root : "");
    settings.pool = options_->pool;
    settings.cancel = cancel_;
    return settings;
}

ProgressOutput& Context::output(bool is_quiet) {
    if (!output_) output_ = std::make_unique<ProgressOutput>(mode_of(*options_), is_quiet);
    return *output_;
}

Result<image::ImageService> Context::reader() { return image::ImageService::open_for_reading(settings()); }

Result<image::ImageService> Context::downloader(bool is_quiet) {
    keeps_downloads_ = true;
    return writer(is_quiet);
}

Result<image::ImageService> Context::writer(bool is_quiet) {
    return image::ImageService::open(settings(), output(is_quiet));
}

Result<image::ImageService> Context::remover(bool is_quiet, bool is_dry_run) {
    image::Settings makes_room = settings();
    makes_room.makes_room = !is_dry_run;
    makes_room.is_dry_run = is_dry_run;
    return image::ImageService::open(makes_room, output(is_quiet));
}

Result<std::string> Context::read_input(std::string const& path, std::size_t limit) {
    // It may wait for a FIFO or a terminal. Nothing has begun, so that a signal may end the program there.
    sigset_t none;
    sigset_t before;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, &before);
    auto text = path == "-" ? read_standard_input(limit) : read_input_file(path, limit);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return text;
}

Result<> Context::print(std::string_view text) {
    // It may wait for who reads a pipe. A signal may end the program there; not one that has come before, since the
    // text may be about what that has cut short.
    sigset_t come;
    sigset_t before;
    ::sigpending(&come);
    ::sigprocmask(SIG_SETMASK, &come, &before);
    int const error = write_all(STDOUT_FILENO, text) ? 0 : errno;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    if (error == 0 || error == EPIPE) return {};
    return fail(error, "write to standard output");
}

Result<> Context::report(std::string_view text) {
    end_progress();
    return print(text::printable(text) + "\n");
}

void Context::message(std::string_view text) { output(false).message(text); }
void Context::warning(std::string_view text) { output(false).warning(text); }

void Context::end_progress() {
    if (output_) output_->clear();
}

bool Context::is_cancelled() const {
    pollfd waiting{.fd = cancel_, .events = POLLIN, .revents = 0};
    return cancel_ >= 0 && ::poll(&waiting, 1, 0) > 0;
}

bool Context::wait_for_input() const {
    std::array<pollfd, 2> waiting{
        {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}, {.fd = cancel_, .events = POLLIN, .revents = 0}}};
    while (::poll(waiting.data(), waiting.size(), -1) < 0 && errno == EINTR) {
    }
    return waiting[1].revents == 0;
}

}  // namespace triton::program
