#include "host/cri/cni/network_configuration.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lib/base/read_file.h"

namespace triton::cri {

namespace {

constexpr std::size_t largest_configuration = 1 << 20;
constexpr std::size_t most_files = 1000;  // an administrator's; what comes after that is not looked at
constexpr std::array<std::string_view, 3> extensions{".conflist", ".conf", ".json"};

}  // namespace

Result<NetworkFile> find_network(std::string const& directory) {
    std::error_code failed;
    std::string first;
    std::size_t seen = 0;
    std::filesystem::directory_iterator const end;
    for (std::filesystem::directory_iterator entry(directory, failed); !failed && entry != end && seen < most_files;
         entry.increment(failed), ++seen) {
        bool const fits = std::ranges::find(extensions, entry->path().extension().string()) != extensions.end();
        std::string const path = entry->path().string();
        if (fits && (first.empty() || path < first)) first = path;
    }
    bool const is_missing = failed == std::errc::no_such_file_or_directory;
    if (failed && !is_missing) return fail(failed.value(), "read " + directory);
    if (first.empty()) return fail(ErrorKind::not_found, "no network is configured in " + directory);
    NetworkFile file{.path = first, .text = {}, .list = {}};
    file.text = TRY(read_file(first, largest_configuration));
    file.list = TRY(parse_network_list(file.text, first));
    return file;
}

}  // namespace triton::cri
