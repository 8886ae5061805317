// scrub, why: what the content of images is good for, and whether it still is.

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "host/image/reference.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/imgadm/commands.h"

namespace triton::program {

namespace {

struct ContentOptions {
    std::string digest;
    bool is_json = false;
};

std::string describe_content(image::ScrubReport const& report) {
    std::string text;
    for (image::ScrubFinding const& finding : report.bad) {
        text += finding.digest + ": " + text::printable(finding.reason) +
                (finding.was_fetched_again ? "; it was fetched again\n"
                 : finding.is_quarantined  ? "; it is in quarantine\n"
                                           : "\n");
        for (std::string const& image : finding.images)
            text += "  used by image " + text::printable(image) + "\n";
    }
    auto const trees = std::ranges::count_if(report.bad, &image::ScrubFinding::is_tree);
    auto const bad = std::ranges::ssize(report.bad) - trees;
    return text + std::to_string(report.blobs) + " blobs, " + shown_bytes(report.bytes) + ": " +
           (bad == 0 ? "all are good" : std::to_string(bad) + " are bad") +
           (trees == 0 ? "" : "; " + std::to_string(trees) + (trees == 1 ? " tree is missing" : " trees are missing")) +
           (report.failure ? "; the others were not read\n" : "\n");
}

std::string as_json(image::ScrubReport const& report) {
    json::Writer out;
    out.open('{').member("blobs", report.blobs).member("bytes", report.bytes).key("bad").open('[');
    for (image::ScrubFinding const& finding : report.bad) {
        out.open('{')
            .member("digest", finding.digest)
            .member("reason", finding.reason)
            .member("fetchedAgain", finding.was_fetched_again)
            .member("quarantined", finding.is_quarantined)
            .member("tree", finding.is_tree)
            .key("images")
            .list(finding.images)
            .close('}');
    }
    out.close(']');
    if (report.failure) out.member("failure", report.failure->text());  // the other blobs were not read
    out.close('}');
    return std::move(out).text() + "\n";
}

Outcome scrub(Context& context, ContentOptions const& options) {
    auto service = TRY_RUN(context.writer(options.is_json));
    auto const report = TRY_RUN(service.scrub());
    if (report.failure && report.blobs == 0) return std::unexpected(failure_of(*report.failure));
    TRY_RUN(Context::print(options.is_json ? as_json(report) : describe_content(report)));
    if (report.failure) return std::unexpected(failure_of(*report.failure));
    for (image::ScrubFinding const& finding : report.bad) {
        if (finding.was_fetched_again) continue;
        return std::unexpected(failure_of(Error{.kind = ErrorKind::corrupt,
                                                .attempted = {},
                                                .reason = "content is damaged and could not be fetched again",
                                                .details = {"importing an image again repairs it"}}));
    }
    return {};
}

void add_scrub(CLI::App& app, Run& run) {
    auto options = std::make_shared<ContentOptions>();
    app.add_flag("-j,--json", options->is_json, "print JSON");
    app.callback([options, &run] { run = [options](Context& context) { return scrub(context, *options); }; });
}

Outcome why(Context& context, ContentOptions const& options) {
    if (!image::is_sha256_digest(options.digest))
        return std::unexpected(usage_failure("a digest is sha256: and 64 lower-case hexadecimal digits"));
    auto service = TRY_RUN(context.writer());
    auto const reasons = TRY_RUN(service.why(options.digest));
    json::Writer out;
    out.list(reasons);
    std::string text;
    for (std::string const& reason : reasons)
        text += text::printable(reason) + "\n";
    TRY_RUN(Context::print(options.is_json ? std::move(out).text() + "\n" : text));
    return {};
}

void add_why(CLI::App& app, Run& run) {
    auto options = std::make_shared<ContentOptions>();
    app.add_option("digest", options->digest, "sha256:... of a blob, a layer or a manifest")->required();
    app.add_flag("-j,--json", options->is_json, "print JSON");
    app.callback([options, &run] { run = [options](Context& context) { return why(context, *options); }; });
}

constexpr std::array<CommandRow, 2> content_rows{{
    {"scrub", "read all content again and replace damaged content", add_scrub},
    {"why", "tell what refers to a digest", add_why},
}};

}  // namespace

std::span<CommandRow const> content_commands() { return content_rows; }

}  // namespace triton::program
