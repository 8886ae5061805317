// Whatever bytes an environment file has: no crash, names that are names, sorted and each once, and the good values
// written again as a file read back as the same.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/environment_file.h"

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

extern "C" int environment_file_fuzz(std::uint8_t const* data, std::size_t size) {
    using namespace triton;
    using namespace triton::config;
    std::string const text(data, data + size);
    EnvironmentFile const file = parse_environment_file(text);
    for (json::Problem const& problem : file.problems)
        require(!problem.reason.empty());
    std::string again;
    for (std::size_t i = 0; i < file.values.size(); ++i) {
        auto const& [name, value] = file.values[i];
        require(!name.empty() && (i == 0 || file.values[i - 1].name < name));
        require(!value.contains('\n') && !value.contains('\0'));
        again.append("export ").append(name).append("=").append(value).append("\r\n");
    }
    if (again.size() > Limits{}.document.document_bytes) return 0;
    EnvironmentFile const reread = parse_environment_file(again);
    require(reread.problems.empty() && reread.values == file.values);
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return environment_file_fuzz(data, size);
}
#endif
