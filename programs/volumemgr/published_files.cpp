#include "programs/volumemgr/published_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "lib/base/read_file.h"
#include "lib/json/lookup.h"

namespace triton::program {

namespace {

constexpr std::size_t largest_file = 1 << 20;
constexpr std::size_t most_files = 1000;
constexpr char publisher[] = "files";

Result<> read_one(json::Node const& node, std::string const& path, std::vector<volume::Config>& into) {
    auto const* const object = node.get<json::Object>();
    if (!object) return fail(path + ": expected an object with kind and config");
    for (json::Member const& member : *object) {
        if (member.key != "kind" && member.key != "config") return fail(path + ": unknown member " + member.key);
    }
    auto config = volume::read_config(json::text_of(*object, "kind"), json::object_of(*object, "config"), publisher);
    if (!config) return fail(config.error().kind, path + ": " + config.error().text());
    into.push_back(*std::move(config));
    return {};
}

}  // namespace

Result<std::vector<volume::Config>> parse_published_file(std::string_view text, std::string const& path) {
    std::vector<volume::Config> into;
    json::ProblemList problems(1);
    auto const node = json::read_json(text, {}, problems);
    if (!node) return fail(path + ": " + std::move(problems).take().front().text());
    auto const* const list = node->get<json::Array>();
    if (!list) TRY(read_one(*node, path, into));
    if (!list) return into;
    for (json::Node const& one : *list)
        TRY(read_one(one, path, into));
    return into;
}

Result<std::vector<volume::Config>> read_published_files(std::string const& directory) {
    std::vector<std::string> paths;
    std::error_code error;
    for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
        std::string const name = at->path().filename().string();
        if (name.ends_with(".json") && name.front() != '.') paths.push_back(at->path().string());
    }
    std::vector<volume::Config> configs;
    if (error == std::errc::no_such_file_or_directory) return configs;
    if (error) return fail(error.value(), "read directory " + directory);
    if (paths.size() > most_files) return fail(directory + " has more than " + std::to_string(most_files) + " files");
    std::ranges::sort(paths);
    for (std::string const& path : paths)
        std::ranges::move(
            TRY(parse_published_file(TRY(read_file(path, largest_file)), path)), std::back_inserter(configs));
    return configs;
}

}  // namespace triton::program
