// delete, vacuum, gc, pin, unpin: which images go and which stay.

#include <array>
#include <expected>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/imgadm/commands.h"
#include "programs/imgadm/images_named.h"

namespace triton::program {

namespace {

struct Names {
    std::vector<std::string> images;
};

std::shared_ptr<Names> add_names(CLI::App& app) {
    auto names = std::make_shared<Names>();
    app.add_option("image", names->images, "UUID, or the reference under which it was imported")->required();
    return names;
}

template <class Change>
Outcome change_one(image::ImageService& service, std::string const& name, Change change) {
    auto const uuid = find_installed(service, name);
    if (!uuid) return std::unexpected(uuid.error());
    Result<> const done = change(service, *uuid);
    if (!done) return std::unexpected(not_installed(done.error()));
    return {};
}

/// Changes each image that is named, and goes on after an error, but not after a signal. The last error ends the
/// command; those before it are reported.
template <class Change>
Run for_each_named(std::shared_ptr<Names> names, Change change) {
    return [names = std::move(names), change](Context& context) -> Outcome {
        auto service = TRY_RUN(context.remover());
        Outcome outcome;
        for (std::string const& name : names->images) {
            if (context.is_cancelled()) {
                if (!outcome) context.warning(outcome.error().error.text());
                return std::unexpected(interrupted());
            }
            auto done = change_one(service, name, change);
            if (done) continue;
            if (!outcome) context.warning(outcome.error().error.text());
            outcome = std::move(done);
        }
        return outcome;
    };
}

void add_delete(CLI::App& app, Run& run) {
    app.callback([names = add_names(app), &run] {
        run =
            for_each_named(names, [](image::ImageService& service, Uuid const& uuid) { return service.remove(uuid); });
    });
}

void add_pin(CLI::App& app, Run& run) {
    app.callback([names = add_names(app), &run] {
        run = for_each_named(
            names, [](image::ImageService& service, Uuid const& uuid) { return service.set_pinned(uuid, true); });
    });
}

void add_unpin(CLI::App& app, Run& run) {
    app.callback([names = add_names(app), &run] {
        run = for_each_named(
            names, [](image::ImageService& service, Uuid const& uuid) { return service.set_pinned(uuid, false); });
    });
}

struct RemovalOptions {
    bool is_dry_run = false;
    bool is_forced = false;
    bool is_json = false;
};

std::string describe_removal(std::vector<image::Victim> const& victims, bool is_json) {
    json::Writer out;
    std::string text;
    std::uint64_t bytes = 0;
    out.open('[');
    for (image::Victim const& victim : victims) {
        out.open('{')
            .member("what", victim.what)
            .member("reason", victim.reason)
            .member("bytes", victim.bytes)
            .close('}');
        text += text::printable(victim.what) + "  " + shown_bytes(victim.bytes) + "  " +
                text::printable(victim.reason) + "\n";
        bytes += victim.bytes;
    }
    out.close(']');
    if (is_json) return std::move(out).text() + "\n";
    return text + std::to_string(victims.size()) + " in all, " + shown_bytes(bytes) + "\n";
}

/// Asks on standard error: standard output may be read by a program. Errors: interrupted.
std::expected<bool, Failure> is_confirmed(Context& context) {
    std::cerr << "Delete them? [y/N] " << std::flush;
    if (!context.wait_for_input()) {
        std::cerr << '\n';
        return std::unexpected(interrupted());
    }
    std::string answer;
    if (!std::getline(std::cin, answer)) std::cerr << '\n';  // the end of the input
    return answer == "y" || answer == "Y" || answer == "yes";
}

Outcome vacuum(Context& context, RemovalOptions const& options) {
    auto service = TRY_RUN(context.remover(options.is_json, options.is_dry_run));
    std::vector<image::Victim> victims;
    std::vector<Uuid> images;  // what comes to be unused after the question is not meant
    for (image::Image const& image : TRY_RUN(service.unused())) {
        images.push_back(image.uuid());
        victims.push_back({"image " + image.uuid().text() + " (" + image.manifest.title() + ")",
                           "nothing is made from it", image.size});
    }
    TRY_RUN(Context::print(describe_removal(victims, options.is_json)));
    if (options.is_dry_run || victims.empty()) return {};
    if (!options.is_forced) {
        if (::isatty(STDIN_FILENO) == 0)
            return std::unexpected(usage_failure("nobody can be asked; -f deletes them, -n only lists them"));
        auto const confirmed = is_confirmed(context);
        if (!confirmed) return std::unexpected(confirmed.error());
        if (!*confirmed) return {};
    }
    TRY_RUN(service.vacuum(images));
    return {};
}

void add_vacuum(CLI::App& app, Run& run) {
    auto options = std::make_shared<RemovalOptions>();
    app.add_flag("-n,--dry-run", options->is_dry_run, "only list them");
    app.add_flag("-f,--force", options->is_forced, "do not ask");
    app.add_flag("-j,--json", options->is_json, "print JSON");
    app.callback([options, &run] { run = [options](Context& context) { return vacuum(context, *options); }; });
}

void add_gc(CLI::App& app, Run& run) {
    auto options = std::make_shared<RemovalOptions>();
    app.add_flag("-n,--dry-run", options->is_dry_run, "only list it");
    app.add_flag("-j,--json", options->is_json, "print JSON");
    app.callback([options, &run] {
        run = [options](Context& context) -> Outcome {
            auto service = TRY_RUN(context.remover(options->is_json, options->is_dry_run));
            auto const victims = TRY_RUN(service.collect(options->is_dry_run));
            TRY_RUN(Context::print(describe_removal(victims, options->is_json)));
            return {};
        };
    });
}

constexpr std::array<CommandRow, 5> removal_rows{{
    {"delete", "delete images", add_delete},
    {"vacuum", "delete images that nothing is made from", add_vacuum},
    {"gc", "delete content that nothing refers to", add_gc},
    {"pin", "keep images from being collected", add_pin},
    {"unpin", "let images be collected again", add_unpin},
}};

}  // namespace

std::span<CommandRow const> removal_commands() { return removal_rows; }

}  // namespace triton::program
