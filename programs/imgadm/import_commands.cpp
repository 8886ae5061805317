// import, install, update, create: the commands that bring images in.

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "host/image/manifest.h"
#include "lib/json/table.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "programs/imgadm/commands.h"
#include "programs/imgadm/images_named.h"
#include "programs/imgadm/paths.h"

namespace triton::program {

namespace {

constexpr std::size_t largest_manifest = 4 << 20;

struct ImportCommand {
    std::vector<std::string> references;
    std::string manifest;
    std::string file;
    std::string uuid;
    std::string platform;
    image::ImportOptions options;
};

void add_file_options(CLI::App& app, ImportCommand& command) {
    auto* const manifest =
        app.add_option("-m,--manifest", command.manifest, "manifest of the image in the file given with -f")
            ->type_name("FILE");
    auto* const file =
        app.add_option("-f,--file", command.file, "tarball or ZFS stream of the image")->type_name("FILE");
    manifest->needs(file);
    file->needs(manifest);
    app.add_flag("-q,--quiet", command.options.is_quiet, "print errors only");
}

/// Turns the texts of the command line into values. Errors: usage.
std::expected<void, Failure> finish(ImportCommand& command) {
    if (!command.uuid.empty()) {
        auto uuid = parse_uuid(command.uuid);
        if (!uuid) return std::unexpected(uuid.error());
        command.options.uuid = *std::move(uuid);
    }
    if (!command.platform.empty()) {
        auto platform = image::parse_platform(command.platform);
        if (!platform) return std::unexpected(usage_failure(platform.error().text()));
        command.options.platform = *std::move(platform);
    }
    command.options.source = absolute_source(command.options.source);
    return {};
}

template <class... Kinds>
bool is_one_of(image::Reference const& reference) {
    return (std::holds_alternative<Kinds>(reference) || ...);
}

/// An option of `import` and what it is for: anything else would ignore it.
struct Use {
    std::string_view option;
    bool is_given;
    bool (*fits)(image::Reference const& reference);
    std::string_view what;
};

std::array<Use, 7> uses_of(ImportCommand const& command) {
    using namespace image;
    constexpr auto is_from_source = is_one_of<Uuid>;
    constexpr auto is_file = is_one_of<PathReference>;
    constexpr auto is_oci = is_one_of<RegistryReference, LayoutReference>;
    constexpr auto is_from_registry = is_one_of<RegistryReference>;
    constexpr auto has_no_manifest = is_one_of<RegistryReference, LayoutReference, PathReference>;
    constexpr std::string_view without_manifest = "a registry, a layout, a tarball or a directory";
    ImportOptions const& options = command.options;
    return {{{"--source", !options.source.empty(), is_from_source, "a UUID of a source"},
             {"--uuid", !command.uuid.empty(), is_file, "a tarball or a directory"},
             {"--name", !options.name.empty(), has_no_manifest, without_manifest},
             {"--image-version", !options.version.empty(), has_no_manifest, without_manifest},
             {"--platform", !command.platform.empty(), is_oci, "a registry or a layout"},
             {"--authfile", !options.authfile.empty(), is_from_registry, "a registry"},
             {"--insecure", options.is_insecure, is_from_registry, "a registry"}}};
}

/// Errors: usage, if an option would be ignored. `references`: those of the command; empty: it has a manifest.
std::expected<void, Failure> check_uses(ImportCommand const& command, std::span<image::Reference const> references) {
    auto const misused = [](Use const& use, std::string const& by) {
        return std::unexpected(
            usage_failure(std::string(use.option) + " is for " + std::string(use.what) + ", and not for " + by));
    };
    for (Use const& use : uses_of(command)) {
        if (!use.is_given) continue;
        if (references.empty()) return misused(use, "an image with a manifest (-m)");
        for (std::size_t i = 0; i < references.size(); ++i)
            if (!use.fits(references[i])) return misused(use, command.references[i]);
    }
    if (command.options.uuid && references.size() > 1)
        return std::unexpected(
            usage_failure("--uuid is for one image, and " + std::to_string(references.size()) + " are named"));
    return {};
}

Outcome install(Context& context, ImportCommand const& command) {
    std::string const manifest = TRY_RUN(Context::read_input(command.manifest, largest_manifest));
    auto service = TRY_RUN(context.downloader(command.options.is_quiet));
    TRY_RUN(service.install(manifest, absolute(command.file), command.options));
    return {};
}

Outcome import(Context& context, ImportCommand command) {
    if (auto const good = finish(command); !good) return good;
    if (!command.file.empty()) {
        if (!command.references.empty())
            return std::unexpected(usage_failure("give either the name of an image or its file with -f, not both"));
        if (auto const used = check_uses(command, {}); !used) return used;
        return install(context, command);
    }
    if (command.references.empty())
        return std::unexpected(
            usage_failure("the image is missing: give a UUID, a reference like docker.io/library/alpine:3.20 or "
                          "oci:DIRECTORY:TAG, a path, or -m MANIFEST -f FILE"));
    std::vector<image::Reference> references;
    for (std::string const& text : command.references) {
        auto reference = named_reference(text);
        if (!reference) return std::unexpected(reference.error());
        references.push_back(*std::move(reference));
    }
    if (auto const used = check_uses(command, references); !used) return used;
    auto service = TRY_RUN(context.downloader(command.options.is_quiet));
    for (image::Reference const& reference : references) {
        auto imported = service.import(reference, command.options);
        bool const is_download = is_one_of<Uuid, image::RegistryReference>(reference);
        if (!imported)
            return std::unexpected(is_download ? download_failure(std::move(imported).error())
                                               : failure_of(std::move(imported).error()));
    }
    return {};
}

void add_import(CLI::App& app, Run& run) {
    auto command = std::make_shared<ImportCommand>();
    app.add_option("reference", command->references,
                   "UUID; HOST/NAME:TAG or HOST/NAME@DIGEST; oci:DIRECTORY:TAG; oci-archive:FILE; /PATH, ./PATH");
    app.add_option("-S,--source", command->options.source, "ask only this source")->type_name("URL");
    add_file_options(app, *command);
    app.add_option("--uuid", command->uuid, "UUID of a tarball or directory; default: made from its content");
    app.add_option("--name", command->options.name, "name of a tarball or directory; default: the file's");
    app.add_option("--image-version", command->options.version,
                   "version of a tarball or directory; default: the beginning of its digest")
        ->type_name("VERSION");
    app.add_option("--platform", command->platform,
                   "take the image for OS/ARCHITECTURE[/VARIANT]; default: this machine's")
        ->type_name("PLATFORM");
    app.add_option("--authfile", command->options.authfile,
                   "credentials for the registry, in the format of ~/.docker/config.json")
        ->type_name("FILE");
    app.add_flag("-k,--insecure", command->options.is_insecure, "accept plain HTTP from a registry that has no HTTPS");
    app.callback([command, &run] { run = [command](Context& context) { return import(context, *command); }; });
}

void add_install(CLI::App& app, Run& run) {
    auto command = std::make_shared<ImportCommand>();
    add_file_options(app, *command);
    app.get_option("--manifest")->required();
    app.callback([command, &run] { run = [command](Context& context) { return install(context, *command); }; });
}

struct UpdateCommand {
    std::vector<std::string> references;
    bool is_dry_run = false;
    image::ImportOptions options;
};

std::string describe(image::UpdateChange const& change, bool is_dry_run) {
    std::string const from = change.old_image ? " from image " + change.old_image->text() : "";
    if (change.new_digest == change.old_digest) return change.reference + " is up to date";
    std::string const to = change.new_image ? " to image " + change.new_image->text() : " to " + change.new_digest;
    return (is_dry_run ? "Would move " : "Moved ") + change.reference + from + to;
}

Outcome update(Context& context, UpdateCommand const& command) {
    std::vector<image::Reference> references;
    for (std::string const& text : command.references) {
        auto reference = named_reference(text);
        if (!reference) return std::unexpected(reference.error());
        references.push_back(*std::move(reference));
    }
    auto service = TRY_RUN(context.downloader());
    auto const changes = service.update(references, command.is_dry_run, command.options);
    if (!changes) return std::unexpected(not_installed(changes.error()));
    Error const* failure = nullptr;
    for (image::UpdateChange const& change : *changes) {
        if (!change.failure) {
            std::string const text = describe(change, command.is_dry_run);
            if (command.is_dry_run)
                TRY_RUN(context.report(text));
            else
                context.message(text);
            continue;
        }
        // The last failure ends the command; those before it are reported here.
        if (failure) context.warning(failure->text());
        failure = &*change.failure;
    }
    if (failure) return std::unexpected(download_failure(*failure));
    return {};
}

void add_update(CLI::App& app, Run& run) {
    auto command = std::make_shared<UpdateCommand>();
    app.add_option("reference", command->references, "a reference with a tag; default: all imported ones");
    app.add_flag("-n,--dry-run", command->is_dry_run, "only tell what would change");
    app.add_option("--authfile", command->options.authfile,
                   "credentials for the registry, in the format of ~/.docker/config.json")
        ->type_name("FILE");
    app.add_flag("-k,--insecure", command->options.is_insecure, "accept plain HTTP from a registry that has no HTTPS");
    app.callback([command, &run] { run = [command](Context& context) { return update(context, *command); }; });
}

/// SmartOS's imgadm sends images to a server; here they are copied into the directory of a source.
std::unexpected<Failure> refuse_to_publish() {
    return std::unexpected(
        failure_of(Error{.kind = ErrorKind::unsupported,
                         .attempted = {},
                         .reason = "imgadm sends no image to a server",
                         .details = {"imgadm create -o DIRECTORY writes two files; in the directory of a source "
                                     "(imgadm sources add -t directory) they are published."}}));
}

struct CreateCommand {
    std::string origin;
    std::vector<std::string> fields;  // of the manifest, as KEY=VALUE
    std::string manifest;
    std::string compression = "none";
    std::string format = "tar";
    std::string server;
    image::CreateOptions options;
    bool is_quiet = false;
};

/// The value of a field: JSON where that is an object, a list or a boolean, a text otherwise.
std::expected<json::Node, Failure> field_value(std::string const& word, std::string const& value) {
    bool const is_json = value.starts_with('{') || value.starts_with('[') || value == "true" || value == "false";
    if (!is_json) return json::Node{value};
    json::ProblemList problems(1);
    auto node = json::read_json(value, json::Limits{.document_bytes = largest_manifest}, problems);
    if (!node)
        return std::unexpected(usage_failure(json::quoted(word) + ": " + std::move(problems).take().front().text()));
    return *std::move(node);
}

/// Adds fields to the text of a manifest, as SmartOS does: they win over what a file says. Errors: usage.
std::expected<std::string, Failure> with_fields(std::string const& manifest, std::vector<std::string> const& fields) {
    if (fields.empty()) return manifest;
    json::Object document;
    if (!manifest.empty()) {
        json::ProblemList problems(1);
        auto node = json::read_json(manifest, json::Limits{.document_bytes = largest_manifest}, problems);
        auto* const object = node ? std::get_if<json::Object>(&node->value) : nullptr;
        if (!object) return manifest;  // whoever reads it says what is wrong
        document = std::move(*object);
    }
    auto const known = image::manifest_keys();
    for (std::string const& word : fields) {
        std::size_t const equals = word.find('=');
        if (equals == std::string::npos || equals == 0)
            return std::unexpected(usage_failure(json::quoted(word) + " is not a field with its value: FIELD=VALUE"));
        std::string key = word.substr(0, equals);
        if (std::ranges::find(known, key) == known.end())
            return std::unexpected(usage_failure("unknown field " + json::quoted(key) + " of a manifest" +
                                                 json::suggestion(key, known) + "; see imgadm reference manifest"));
        auto value = field_value(word, word.substr(equals + 1));
        if (!value) return std::unexpected(std::move(value).error());
        std::erase_if(document, [&key](json::Member const& member) { return member.key == key; });
        document.push_back({std::move(key), *std::move(value)});
    }
    json::Writer out;
    out.value(document);
    return std::move(out).text();
}

Outcome create(Context& context, CreateCommand command) {
    if (!command.server.empty()) return refuse_to_publish();
    static constexpr std::array<image::Compression, 5> all{image::Compression::none, image::Compression::gzip,
                                                           image::Compression::bzip2, image::Compression::xz,
                                                           image::Compression::zstd};
    for (image::Compression const one : all) {
        if (command.compression == image::name_of(one)) command.options.compression = one;
    }
    command.options.is_stream = command.format == "zfs" || command.options.is_increment;
    if (!command.manifest.empty())
        command.options.manifest = TRY_RUN(Context::read_input(command.manifest, largest_manifest));
    auto manifest = with_fields(command.options.manifest, command.fields);
    if (!manifest) return std::unexpected(std::move(manifest).error());
    command.options.manifest = *std::move(manifest);
    auto service = TRY_RUN(context.writer(command.is_quiet));
    auto const uuid = Uuid::parse(command.origin);
    auto const created = TRY_RUN(uuid ? service.create(*uuid, command.options)
                                      : service.create(absolute(command.origin), command.options));
    if (created.file.empty() || command.is_quiet) return {};
    context.message("Manifest: " + created.manifest_file);
    context.message("Image file: " + created.file);
    return {};
}

void add_create(CLI::App& app, Run& run) {
    auto command = std::make_shared<CreateCommand>();
    app.add_option("origin", command->origin, "a directory, or the UUID of a machine")->required();
    app.add_option("fields", command->fields, "fields of the manifest: name=web version=1.0")->type_name("FIELD=VALUE");
    app.add_option("-m,--manifest", command->manifest,
                   "file with given parts of the manifest; - reads it from standard input")
        ->type_name("FILE");
    auto* const output = app.add_option("-o,--output-directory", command->options.output,
                                        "write the image and its manifest there; default: install it on this host")
                             ->type_name("DIRECTORY");
    app.add_option("-c,--compression", command->compression, "none, gzip, bzip2, xz or zstd")
        ->check(CLI::IsMember({"none", "gzip", "bzip2", "xz", "zstd"}))
        ->capture_default_str()
        ->needs(output);
    app.add_option("--format", command->format, "tar, or zfs: a stream of a machine on ZFS, into files")
        ->check(CLI::IsMember({"tar", "zfs"}))
        ->capture_default_str();
    auto* const increment = app.add_flag("-i,--incremental", command->options.is_increment,
                                         "make a ZFS stream of the machine's changes to its image");
    app.add_option("--max-origin-depth", command->options.most_origins,
                   "refuse an increment with more images below it than this")
        ->type_name("NUMBER")
        ->needs(increment);
    app.add_option("-s,--script", command->options.script,
                   "program that prepares a copy of the machine, inside it, before the image is made")
        ->type_name("FILE");
    app.add_option("-p,--publish", command->server, "is not supported: see imgadm publish")->type_name("URL");
    app.add_flag("-q,--quiet", command->is_quiet, "print errors only");
    app.callback([command, &run] { run = [command](Context& context) { return create(context, *command); }; });
}

/// Takes all words and options: an answer about them would not help.
void add_publish(CLI::App& app, Run& run) {
    app.fallthrough(false)->allow_extras();
    app.callback([&run] { run = [](Context&) -> Outcome { return refuse_to_publish(); }; });
}

constexpr std::array<CommandRow, 5> import_rows{{
    {"import", "bring an image in: from a source, a registry, a layout, a file or a directory", add_import},
    {"install", "bring an image in from its manifest and its file", add_install},
    {"update", "resolve tags again and import what they mean now", add_update},
    {"create", "make an image of a directory or a machine", add_create},
    {"publish", "is not supported: says how images are published", add_publish},
}};

}  // namespace

std::span<CommandRow const> import_commands() { return import_rows; }

}  // namespace triton::program
