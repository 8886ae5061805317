#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "host/image/image_service.h"
#include "lib/base/result.h"
#include "programs/imgadm/failure.h"
#include "programs/imgadm/progress_output.h"

namespace triton::program {

/// The options that every command has.
struct GlobalOptions {
    std::string root = {};
    std::string progress = "auto";
    std::string pool = {};
    bool is_verbose = false;
    bool has_json_errors = false;
};

/// The result of a command: nothing, or why it failed.
using Outcome = std::expected<void, Failure>;

/// The environment of a command.
class Context {
public:
    Context(GlobalOptions const& options, int cancel) : options_(&options), cancel_(cancel) {}

    [[nodiscard]] GlobalOptions const& options() const { return *options_; }

    /// The library, to look only.
    Result<image::ImageService> reader();
    /// The library, to change something. `is_quiet`: its messages are not shown.
    Result<image::ImageService> writer(bool is_quiet = false);
    /// The same for a command that makes room, also on a full disk. `is_dry_run`: it only reports what it would remove.
    Result<image::ImageService> remover(bool is_quiet = false, bool is_dry_run = false);
    /// The same for a command that downloads: when it is interrupted, what has come is kept.
    Result<image::ImageService> downloader(bool is_quiet = false);
    [[nodiscard]] bool keeps_downloads() const { return keeps_downloads_; }

    /// The content of a file that the user names; -: of standard input. Errors: as read_file().
    static Result<std::string> read_input(std::string const& path, std::size_t limit);
    /// Writes to standard output. A missing reader is not an error: `imgadm list | head`.
    static Result<> print(std::string_view text);
    /// Prints a line that is the purpose of a command, in printable form. Errors: as print().
    Result<> report(std::string_view text);
    /// Tells what was done: that is done even if nobody reads it.
    void message(std::string_view text);
    void warning(std::string_view text);
    /// Takes the line of progress away, so that nothing is written behind it.
    void end_progress();
    [[nodiscard]] bool is_cancelled() const;
    /// Waits until standard input can be read. Returns false when the user wants to stop.
    [[nodiscard]] bool wait_for_input() const;

private:
    ProgressOutput& output(bool is_quiet);
    [[nodiscard]] image::Settings settings() const;

    GlobalOptions const* options_;
    int cancel_;
    bool keeps_downloads_ = false;
    std::unique_ptr<ProgressOutput> output_;
};

/// The value of a Result inside a command, or an early return with its failure.
#define TRY_RUN(expr)                                                                                \
    __extension__({                                                                                  \
        auto tried = (expr);                                                                         \
        if (!tried) return std::unexpected(::triton::program::failure_of(std::move(tried).error())); \
        *std::move(tried);                                                                           \
    })

}  // namespace triton::program
