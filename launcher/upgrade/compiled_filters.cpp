#include "launcher/upgrade/compiled_filters.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "launcher/plan/blocks.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/process/start_trial.h"

namespace triton::launcher {

namespace {

/// The filters of the plans' programs, each once. Their helpers have the same.
std::vector<process::SeccompFilter> filters_of(std::span<std::shared_ptr<ProgramPlan const> const> programs) {
    std::vector<process::SeccompFilter> filters;
    for (auto const& program : programs) {
        auto const& filter = program->start->attributes().seccomp;
        if (filter && std::ranges::find(filters, *filter) == filters.end()) filters.push_back(*filter);
    }
    return filters;
}

process::SeccompSettings read_settings(BlockReader& in) {
    process::SeccompSettings settings;
    settings.profile = static_cast<process::SeccompProfile>(in.number());
    settings.action = static_cast<process::SeccompAction>(in.number());
    settings.allow = in.blocks();
    settings.deny = in.blocks();
    return settings;
}

/// The descriptor that the environment names; -1: none.
int named_descriptor() {
    char const* const value = std::getenv(filters_variable);
    if (!value) return -1;
    int fd = -1;
    auto const [end, error] = std::from_chars(value, value + std::strlen(value), fd);
    return error == std::errc{} && *end == '\0' ? fd : -1;
}

}  // namespace

std::optional<std::string> own_compiler() {
    struct stat file;
    if (::stat("/proc/self/exe", &file) != 0) return std::nullopt;
    std::string compiler = process::SeccompFilter::compiler();
    for (std::int64_t const number :
         {static_cast<std::int64_t>(file.st_dev), static_cast<std::int64_t>(file.st_ino), std::int64_t{file.st_size},
          std::int64_t{file.st_ctim.tv_sec}, std::int64_t{file.st_ctim.tv_nsec}})
        compiler += " " + std::to_string(number);
    return compiler;
}

std::string write_compiled_filters(std::span<std::shared_ptr<ProgramPlan const> const> programs,
                                   std::string_view compiler) {
    std::vector<process::SeccompFilter> const filters = filters_of(programs);
    BlockWriter out;
    out.add(compiler);
    out.add(std::uint64_t{filters.size()});
    for (process::SeccompFilter const& filter : filters) {
        process::SeccompSettings const& settings = filter.settings();
        out.add(static_cast<std::uint64_t>(settings.profile));
        out.add(static_cast<std::uint64_t>(settings.action));
        out.add(settings.allow);
        out.add(settings.deny);
        out.add(filter.code());
    }
    return out.take();
}

std::vector<process::SeccompFilter> read_compiled_filters(std::string_view text, std::string_view compiler) {
    BlockReader in(text);
    // The rest is of the same program, so that its enums are ours.
    if (in.block() != compiler) return {};
    std::size_t const count = in.count();
    if (count > process::most_filters) return {};
    std::vector<std::pair<process::SeccompSettings, process::SeccompFilter::Code>> read;
    for (std::size_t i = 0; i < count; ++i) {
        process::SeccompSettings settings = read_settings(in);
        read.emplace_back(std::move(settings), in.code());
    }
    std::vector<process::SeccompFilter> filters;
    if (!in.is_whole()) return filters;
    for (auto& [settings, code] : read)
        filters.push_back(process::SeccompFilter::compiled_elsewhere(settings, std::move(code)));
    return filters;
}

void leave_compiled_filters(std::string_view text) {
    int const fd = named_descriptor();
    if (fd < 0 || text.size() > longest_compiled_filters) return;
    // A limit of the size of files also applies to this one. What is cut off is of no use, and does no harm.
    auto* const before = std::signal(SIGXFSZ, SIG_IGN);
    (void)write_all(fd, text);
    (void)std::signal(SIGXFSZ, before);
}

std::vector<process::SeccompFilter> take_compiled_filters(UpgradeState& state) {
    if (!state.filters) return {};
    UniqueFd const file{*std::exchange(state.filters, std::nullopt)};
    auto const text = read_sealed(file.get(), longest_compiled_filters);
    auto const compiler = own_compiler();
    if (!text || !compiler) return {};
    return read_compiled_filters(*text, *compiler);
}

}  // namespace triton::launcher
