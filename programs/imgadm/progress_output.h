#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/image/observer.h"
#include "lib/base/clock.h"

namespace triton::program {

enum class ProgressMode : std::uint8_t {
    automatic,  ///< a line on a terminal, else nothing
    line,
    lines,  ///< a line for each phase
    json,   ///< a JSON object in a line, for each
    none,
};

/// The rate of a transfer over its last seconds.
class RateMeter {
public:
    /// Bytes in a second; 0 while that is not known.
    std::uint64_t update(std::uint64_t done, TimePoint now);

private:
    TimePoint from_{};
    std::uint64_t done_at_from_ = 0;
    double rate_ = 0;
    bool is_started_ = false;
};

/// "12.3 MiB"
std::string shown_bytes(std::uint64_t bytes);

/// "downloading  12.3 MiB of 170.0 MiB, 80.1 MiB/s, 2 s left: docker.io/library/alpine:3.20", not longer than
/// `columns`.
std::string progress_line(image::Progress const& progress, std::uint64_t bytes_per_second, std::size_t columns);

/// Shows what the library tells: messages on standard output, the rest on standard error. The line of progress is
/// written over itself and is gone in the end; colours are for terminals only.
class ProgressOutput : public image::Observer {
public:
    ProgressOutput(ProgressMode mode, bool is_quiet);
    ~ProgressOutput() override;
    ProgressOutput(ProgressOutput const&) = delete;
    ProgressOutput& operator=(ProgressOutput const&) = delete;

    void progress(image::Progress const& progress) override;
    void message(std::string_view text) override;
    void warning(std::string_view text) override;

    /// Takes the line of progress away.
    void clear();

private:
    void show(std::string const& line);

    ProgressMode mode_;
    bool is_quiet_;
    bool has_colours_;
    bool is_line_shown_ = false;
    image::Phase phase_ = image::Phase::resolving;
    std::string image_;
    std::string waited_for_;
    RateMeter meter_;
};

}  // namespace triton::program
