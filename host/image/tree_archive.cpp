#include "host/image/tree_archive.h"

#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "lib/base/last_line.h"
#include "lib/base/pipe.h"
#include "lib/base/signal_text.h"
#include "lib/base/start_thread.h"
#include "lib/process/run_command.h"

namespace triton::image {

namespace {

constexpr std::uint64_t largest_tree_archive = std::uint64_t{1} << 42;
constexpr auto most_silence = std::chrono::minutes(30);  // tar looks at many names before it writes

struct Program {
    Compression compression;
    std::string_view name;
};
constexpr std::array<Program, 5> programs{{{Compression::none, ""},
                                           {Compression::gzip, "gzip"},
                                           {Compression::bzip2, "bzip2"},
                                           {Compression::xz, "xz"},
                                           {Compression::zstd, "zstd"}}};

std::string program_of(Compression compression) {
    for (Program const& program : programs) {
        if (program.compression == compression) return std::string(program.name);
    }
    std::unreachable();
}

Result<> check_end(std::string const& what, Result<process::Completed> const& completed) {
    if (!completed) return std::unexpected(completed.error());
    if (completed->is_ok()) return {};
    std::string reason = last_line(completed->errors);
    if (reason.empty() && completed->signal) reason = "it was killed by " + signal_text(completed->signal);
    if (reason.empty()) reason = "it exited with code " + std::to_string(completed->exit_code);
    return fail(ErrorKind::refused, what, std::move(reason));
}

/// The command line of tar, without anything that depends on when it runs.
process::Command tar_command(int directory, int out) {
    return {
        .arguments = {"tar", "--create", "--file=-", "--directory=/proc/self/fd/3", "--numeric-owner", "--sort=name",
                      "--format=posix", "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
                      "--xattrs", "--xattrs-include=*", "--acls", "--sparse", "--one-file-system", "."},
        .out = out,
        .descriptors = {directory}};
}

/// Takes what the pipe brings until it ends. Returns what was received.
Result<role::Verified> receive(Workshop& shop, int file, UniqueFd pipe) {
    auto job = TRY(content::VerifyJob::start(shop.jobs(), {.maximum = largest_tree_archive}, file, {}));
    TRY(job.add_range(1, 0, std::nullopt, std::move(pipe)));
    while (true) {
        TRY(shop.check_cancelled());
        auto const event = TRY(job.next(std::chrono::steady_clock::now() + most_silence));
        if (auto const* const ended = std::get_if<role::RangeEnded>(&event)) TRY(job.end(ended->received));
        if (auto const* const verified = std::get_if<role::Verified>(&event)) return *verified;
        if (auto const* const killed = std::get_if<content::VerifyJob::Killed>(&event))
            return fail(ErrorKind::unavailable, killed->how);
    }
}

}  // namespace

Result<content::Blob> store_tree(Workshop& shop, content::LeaseId lease, int directory,
                                 content::BlobFacts const& facts) {
    auto ingest = TRY(
        shop.store.begin_ingest("tree of " + shop.owner, std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    TRY(ingest.restart());
    UniqueFd writable = TRY(ingest.open_for_writing());
    auto [read_end, write_end] = TRY(make_pipe());
    Result<process::Completed> completed = process::Completed{};
    auto tar = start_thread([&completed, directory, end = std::move(write_end)]() mutable {
        completed = process::run_command(tar_command(directory, end.get()));
        end = UniqueFd();  // the verifier sees the end
    });
    Result<role::Verified> const verified =
        tar ? receive(shop, writable.get(), std::move(read_end)) : std::unexpected(tar.error());
    if (tar) tar->join();
    auto const ended = check_end("read " + facts.source, completed);
    if (!verified || !ended) {
        (void)shop.store.abandon(std::move(ingest));  // the earlier error is the one to report
        // tar is killed by SIGPIPE when nobody takes what it writes any more.
        bool const is_stopped = !verified && completed && completed->signal == SIGPIPE;
        return std::unexpected(!ended && !is_stopped ? ended.error() : verified.error());
    }
    UniqueFd const unwritable = TRY(content::prove_unwritable(std::move(writable)));
    return shop.store.commit(std::move(ingest), verified->digest, facts, shop.protection(lease));
}

Result<> compress(int source, int target, Compression compression, int cancel) {
    std::string const program = compression == Compression::none ? "cat" : program_of(compression);
    std::vector<std::string> arguments{program};
    if (compression != Compression::none) arguments.emplace_back("-c");
    if (compression == Compression::gzip) arguments.emplace_back("-n");
    return check_end(
        "compress with " + program,
        process::run_command({.arguments = std::move(arguments), .in = source, .out = target, .cancel = cancel}));
}

std::string decompressor(Compression compression) { return program_of(compression); }

}  // namespace triton::image
