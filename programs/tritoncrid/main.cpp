#include <exception>
#include <span>
#include <string>
#include <string_view>

#include <unistd.h>

#include "lib/base/default_signals.h"
#include "lib/base/error_kinds.h"
#include "lib/base/write_all.h"
#include "programs/tritoncrid/options.h"
#include "programs/tritoncrid/run.h"

namespace {

using namespace triton;

int complain(Error const& error) {
    std::string text = "tritoncrid: " + error.text() + "\n";
    for (std::string const& detail : error.details)
        text += "  " + detail + "\n";
    (void)write_all(STDERR_FILENO, text);  // nobody to tell
    return row_of(error.kind).exit_code;
}

int run(int argc, char** argv, char** environment) {
    auto const options =
        program::parse_cri_options(std::span(argv, static_cast<std::size_t>(argc)).subspan(1), environment);
    if (!options) return complain(options.error());
    if (!options->text.empty()) return write_all(STDOUT_FILENO, options->text) ? 0 : 1;
    auto const ended = program::run_cri_daemon(*options);
    return ended ? 0 : complain(ended.error());
}

}  // namespace

int main(int argc, char** argv, char** environment) {
    triton::take_default_signals();
    try {
        return run(argc, argv, environment);
    } catch (std::exception const& error) {
        return complain({.kind = ErrorKind::internal, .attempted = {}, .reason = error.what(), .details = {}});
    }
}
