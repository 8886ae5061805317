// list, get, show, avail, ancestry: the commands that change nothing.

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "programs/imgadm/commands.h"
#include "programs/imgadm/images_named.h"
#include "programs/imgadm/listing.h"
#include "programs/imgadm/paths.h"

namespace triton::program {

namespace {

void add_list_options(CLI::App& app, ListOptions& options) {
    auto* const json = app.add_flag("-j,--json", options.is_json, "print JSON");
    auto* const parsable = app.add_flag("-p,--parsable", options.is_parsable,
                                        "separate fields with a colon and print no header, for programs");
    app.add_flag("-H,--no-header", options.has_no_header, "print no header");
    app.add_option("-o,--output", options.columns, "columns, separated by commas")
        ->type_name("COLUMNS")
        ->capture_default_str()
        ->excludes(json);
    app.add_option("-s,--sort", options.sort, "columns to sort by; -COLUMN: descending")
        ->type_name("COLUMNS")
        ->capture_default_str();
    parsable->excludes(json);
}

void add_filters(CLI::App& app, ListOptions& options) {
    app.add_option("filter", options.filters, "KEY=VALUE, KEY=true, KEY=false or KEY=~PART; all must hold")
        ->type_name("FILTER");
}

Outcome print_list(std::span<Listed const> images, ListOptions const& options) {
    auto const text = render_list(images, options);
    if (!text) return std::unexpected(usage_failure(text.error().text()));
    TRY_RUN(Context::print(*text));
    return {};
}

void add_list(CLI::App& app, Run& run) {
    auto options = std::make_shared<ListOptions>();
    add_list_options(app, *options);
    add_filters(app, *options);
    app.callback([options, &run] {
        run = [options](Context& context) -> Outcome {
            auto service = TRY_RUN(context.reader());
            auto const images = TRY_RUN(service.list());
            return print_list(listed(images), *options);
        };
    });
}

struct GetOptions {
    std::string image;
    bool with_origins = false;
};

Outcome get(Context& context, GetOptions const& options) {
    auto service = TRY_RUN(context.reader());
    auto const uuid = find_installed(service, options.image);
    if (!uuid) return std::unexpected(uuid.error());
    if (options.with_origins) {
        auto const images = service.ancestry(*uuid);
        if (!images) return std::unexpected(not_installed(images.error()));
        return print_list(listed(*images), {.sort = "", .is_json = true});
    }
    auto const image = service.get(*uuid);
    if (!image) return std::unexpected(not_installed(image.error()));
    TRY_RUN(Context::print(image_json(listed({&*image, 1}).front())));
    return {};
}

void add_get(CLI::App& app, Run& run) {
    auto options = std::make_shared<GetOptions>();
    app.add_option("image", options->image, "UUID, or the reference under which it was imported")->required();
    app.add_flag("-r,--recursive", options->with_origins,
                 "print an array of it and of the images that it is an increment of");
    app.callback([options, &run] { run = [options](Context& context) { return get(context, *options); }; });
}

struct SourceOptions {
    std::string image;
    std::string source;
    ListOptions list;
};

Outcome show(Context& context, SourceOptions const& options) {
    auto const uuid = parse_uuid(options.image);
    if (!uuid) return std::unexpected(uuid.error());
    auto service = TRY_RUN(context.writer());
    auto const image = TRY_RUN(service.show(*uuid, absolute_source(options.source)));
    TRY_RUN(Context::print(indented(image.manifest.document) + "\n"));
    return {};
}

void add_show(CLI::App& app, Run& run) {
    auto options = std::make_shared<SourceOptions>();
    app.add_option("uuid", options->image, "UUID of an image that a source has")->required();
    app.add_option("-S,--source", options->source, "ask only this source")->type_name("URL");
    app.callback([options, &run] { run = [options](Context& context) { return show(context, *options); }; });
}

void add_avail(CLI::App& app, Run& run) {
    auto options = std::make_shared<SourceOptions>();
    add_list_options(app, options->list);
    app.add_option("-S,--source", options->source, "ask only this source")->type_name("URL");
    add_filters(app, options->list);
    app.callback([options, &run] {
        run = [options](Context& context) -> Outcome {
            auto service = TRY_RUN(context.writer());
            auto const images = TRY_RUN(service.available(absolute_source(options->source)));
            return print_list(listed(images), options->list);
        };
    });
}

Outcome ancestry(Context& context, SourceOptions const& options) {
    auto service = TRY_RUN(context.reader());
    auto const uuid = find_installed(service, options.image);
    if (!uuid) return std::unexpected(uuid.error());
    auto const images = service.ancestry(*uuid);
    if (!images) return std::unexpected(not_installed(images.error()));
    return print_list(listed(*images), options.list);
}

void add_ancestry(CLI::App& app, Run& run) {
    auto options = std::make_shared<SourceOptions>();
    app.add_option("image", options->image, "UUID, or the reference under which it was imported")->required();
    options->list.sort.clear();  // the image first, then what it is made from
    add_list_options(app, options->list);
    app.callback([options, &run] { run = [options](Context& context) { return ancestry(context, *options); }; });
}

constexpr std::array<CommandRow, 5> list_rows{{
    {"list", "list the installed images", add_list},
    {"get", "print what is known of an installed image, as JSON", add_get},
    {"avail", "list the images that the sources have", add_avail},
    {"show", "print the manifest of an image that a source has", add_show},
    {"ancestry", "list an image and the images that it is an increment of", add_ancestry},
}};

}  // namespace

std::span<CommandRow const> list_commands() { return list_rows; }

}  // namespace triton::program
