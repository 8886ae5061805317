#include <exception>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/default_signals.h"
#include "lib/base/error_kinds.h"
#include "lib/base/new_calls.h"
#include "lib/base/write_all.h"
#include "programs/vminfod/options.h"
#include "programs/vminfod/run.h"

namespace {

using namespace triton;

int complain(std::string_view text, int exit_code) {
    (void)write_all(STDERR_FILENO, "vminfod: " + std::string(text) + "\n");  // nobody to tell
    return exit_code;
}

int run(int argc, char** argv, char** environment) {
    auto const options =
        program::parse_options(std::span(argv, static_cast<std::size_t>(argc)).subspan(1), environment);
    if (!options) return complain(options.error().text(), row_of(options.error().kind).exit_code);
    if (!options->text.empty()) return write_all(STDOUT_FILENO, options->text) ? 0 : 1;
    auto const prepared = prepare_host_program(NeededCalls::files);
    auto const ended = prepared ? program::run_daemon(*options) : prepared;
    return ended ? 0 : complain(ended.error().text(), row_of(ended.error().kind).exit_code);
}

}  // namespace

int main(int argc, char** argv, char** environment) {
    triton::take_default_signals();
    ::umask(022);
    try {
        return run(argc, argv, environment);
    } catch (std::exception const& error) {
        return complain(error.what(), row_of(ErrorKind::internal).exit_code);
    }
}
