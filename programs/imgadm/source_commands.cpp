// sources: where images come from.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/imgadm/commands.h"
#include "programs/imgadm/paths.h"

namespace triton::program {

namespace {

struct SourcesCommand {
    std::vector<std::string> added;
    std::vector<std::string> removed;
    bool is_edit = false;
    bool is_check = false;
    bool is_json = false;
    bool is_verbose = false;
    bool is_forced = false;
    std::string type = "imgapi";
    std::string policy = "none";
    image::Source details;  ///< for a source that is added
};

Result<image::SignaturePolicy> parse_policy(std::string_view name) {
    for (auto const policy :
         {image::SignaturePolicy::required, image::SignaturePolicy::if_present, image::SignaturePolicy::none}) {
        if (name == image::name_of(policy)) return policy;
    }
    return fail(json::quoted(name) + " is not one of the policies required, if-present, none");
}

Outcome print_sources(image::ImageService const& service, SourcesCommand const& command) {
    json::Writer out;
    std::string text;
    out.open('[');
    for (image::Source const& source : service.sources()) {
        out.raw(image::source_json(source));
        text += text::printable(source.url);
        if (command.is_verbose)
            text += " (" + std::string(image::name_of(source.type)) + (source.is_insecure ? ", insecure" : "") +
                    ", signature " + std::string(image::name_of(source.signature)) + ")";
        text += '\n';
    }
    out.close(']');
    TRY_RUN(Context::print(command.is_json ? std::move(out).text() + "\n" : text));
    return {};
}

bool has_source(std::vector<image::Source> const& sources, std::string_view url) {
    return std::ranges::find(sources, url, &image::Source::url) != sources.end();
}

/// Reads the options of sources that are added. Errors: usage, also if one of them would be ignored.
std::expected<image::Source, Failure> described_source(SourcesCommand const& command) {
    auto const type = image::parse_source_type(command.type);
    if (!type) return std::unexpected(usage_failure(type.error().text()));
    auto const policy = parse_policy(command.policy);
    if (!policy) return std::unexpected(usage_failure(policy.error().text()));
    image::Source source = command.details;
    source.type = *type;
    source.signature = *policy;
    bool const is_checked = *policy != image::SignaturePolicy::none;
    if (is_checked && source.keys.empty())
        return std::unexpected(usage_failure("--signature " + command.policy + " needs a key: --key FILE"));
    if (!is_checked && (!source.keys.empty() || !source.signatures.empty()))
        return std::unexpected(usage_failure(std::string(source.keys.empty() ? "--signatures" : "--key") +
                                             " is for --signature required or if-present: no signature is checked"));
    if (!source.channel.empty() && *type != image::SourceType::imgapi)
        return std::unexpected(usage_failure("--channel is for a source of type imgapi"));
    for (std::string& key : source.keys)
        key = absolute(key);
    source.authfile = absolute(source.authfile);
    source.authorities = absolute(source.authorities);
    return source;
}

Outcome add_sources(Context& context, image::ImageService& service, SourcesCommand const& command) {
    auto const described = described_source(command);
    if (!described) return std::unexpected(described.error());
    std::vector<image::Source> wanted;
    for (std::string const& url : command.added) {
        bool const is_directory = described->type == image::SourceType::directory;
        image::Source source = *described;
        source.url = image::canonical_url(is_directory ? absolute_source(url) : url);
        if (auto const good = image::check_source(source); !good)
            return std::unexpected(usage_failure(good.error().text()));
        if (!command.is_forced && !has_source(service.sources(), source.url)) TRY_RUN(service.check(source));
        wanted.push_back(std::move(source));
    }
    std::vector<std::string> done;  // told once it is
    auto const add = [&](std::vector<image::Source> sources) -> Result<std::vector<image::Source>> {
        for (image::Source& source : wanted) {
            if (has_source(sources, source.url)) {
                done.push_back("Already have \"" + source.url + "\" as a source, no change");
                continue;
            }
            done.push_back("Added \"" + std::string(image::name_of(source.type)) + "\" image source \"" + source.url +
                           "\"");
            sources.push_back(std::move(source));
        }
        return sources;
    };
    TRY_RUN(service.change_sources(add));
    for (std::string const& text : done)
        context.message(text);
    return {};
}

Outcome remove_sources(Context& context, image::ImageService& service, SourcesCommand const& command) {
    std::vector<std::string> done;  // told once it is
    auto const remove = [&](std::vector<image::Source> sources) -> Result<std::vector<image::Source>> {
        for (std::string const& given : command.removed) {
            std::string const url = image::canonical_url(absolute_source(given));
            auto const found = std::ranges::find(sources, url, &image::Source::url);
            if (found == sources.end()) {
                done.push_back("Do not have \"" + url + "\" as a source, no change");
                continue;
            }
            done.push_back("Deleted \"" + std::string(image::name_of(found->type)) + "\" image source \"" + found->url +
                           "\"");
            sources.erase(found);
        }
        return sources;
    };
    TRY_RUN(service.change_sources(remove));
    for (std::string const& text : done)
        context.message(text);
    return {};
}

Outcome check_sources(Context& context, image::ImageService& service) {
    bool is_good = true;
    for (image::Source const& source : service.sources()) {
        auto const answer = service.check(source);
        is_good = is_good && answer;
        TRY_RUN(context.report(source.url + ": " + (answer ? "ok" : answer.error().text())));
    }
    if (is_good) return {};
    return std::unexpected(failure_of(Error{.kind = ErrorKind::unavailable,
                                            .attempted = {},
                                            .reason = "not every source answers as it should",
                                            .details = {}}));
}

/// Runs the user's editor on a file. Errors: its exit code.
Result<> run_editor(std::string const& path) {
    char const* editor = std::getenv("VISUAL");
    if (!editor || !*editor) editor = std::getenv("EDITOR");
    // As in git and visudo, the variable may contain several words.
    std::string const command = std::string(editor && *editor ? editor : "vi") + " \"$1\"";
    pid_t const child = ::fork();
    if (child < 0) return fail(errno, "start the editor");
    if (child == 0) {
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::execl("/bin/sh", "sh", "-c", command.c_str(), "sh", path.c_str(), nullptr);
        ::_exit(127);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child) return fail(errno, "wait for the editor");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    return fail(ErrorKind::refused, "the editor failed, and nothing was changed");
}

/// `before`: what the user began with. What somebody else has done since then is not overwritten.
Outcome take_edited(Context& context, image::ImageService& service, std::string const& before,
                    std::string const& text) {
    auto read = TRY_RUN(image::read_configuration(text, "what was edited"));
    auto const replace = [&](std::vector<image::Source> sources) -> Result<std::vector<image::Source>> {
        if (image::configuration_text({.sources = std::move(sources)}) != before)
            return fail(ErrorKind::busy, "another command has changed the sources meanwhile, and nothing was changed");
        return std::move(read.configuration.sources);
    };
    TRY_RUN(service.change_sources(replace));
    context.message("Changed the sources");
    return {};
}

Outcome edit_sources(Context& context, image::ImageService& service) {
    image::Configuration const configuration{.sources = service.sources()};
    std::string path = "/tmp/imgadm-sources.XXXXXX";
    UniqueFd const file(::mkstemp(path.data()));
    if (!file) return std::unexpected(failure_of(fail(errno, "create " + path).error()));
    std::string const before = image::configuration_text(configuration);
    bool const is_written = ::write(file.get(), before.data(), before.size()) == static_cast<ssize_t>(before.size());
    auto const edited = is_written ? run_editor(path) : Result<>(fail(errno, "write " + path));
    auto const after = read_file(path, 1 << 20);
    bool const is_changed = !after || *after != before;
    bool const is_gone = !after && after.error().kind == ErrorKind::not_found;
    Outcome taken;
    if (!edited || !after)
        taken = std::unexpected(failure_of(edited ? after.error() : edited.error()));
    else if (is_changed)
        taken = take_edited(context, service, before, *after);
    if (taken || !is_changed)
        ::unlink(path.c_str());
    else if (!is_gone)
        taken.error().error.details.push_back("What was edited is kept in " + path);
    if (taken && !is_changed) context.message("No change");
    return taken;
}

Outcome sources(Context& context, SourcesCommand const& command) {
    bool const changes = !command.added.empty() || !command.removed.empty() || command.is_edit || command.is_check;
    auto service = TRY_RUN(changes ? context.writer() : context.reader());
    if (!command.added.empty()) return add_sources(context, service, command);
    if (!command.removed.empty()) return remove_sources(context, service, command);
    if (command.is_edit) return edit_sources(context, service);
    if (command.is_check) return check_sources(context, service);
    return print_sources(service, command);
}

/// Options of a source that is added. Returns them.
std::vector<CLI::Option*> add_details(CLI::App& app, SourcesCommand& command) {
    return {app.add_option("-t,--type", command.type, "type of the added source: imgapi, directory or registry")
                ->capture_default_str(),
            app.add_flag("-k,--insecure", command.details.is_insecure,
                         "accept plain HTTP from another machine for the added source"),
            app.add_flag("-f,--force", command.is_forced, "add it without asking whether it answers"),
            app.add_option("--signature", command.policy,
                           "signature policy of the added source: required, if-present or none")
                ->capture_default_str(),
            app.add_option("--key", command.details.keys, "file with a public key for the added source")
                ->type_name("FILE")
                ->allow_extra_args(false),
            app.add_option("--signatures", command.details.signatures,
                           "where SHA256SUMS and its signature are; default: the added source")
                ->type_name("URL"),
            app.add_option("--authfile", command.details.authfile,
                           "credentials for the added source, in the format of ~/.docker/config.json")
                ->type_name("FILE"),
            app.add_option("--mirror", command.details.mirrors, "another URL with the same content as the added source")
                ->type_name("URL")
                ->allow_extra_args(false),
            app.add_option("--cacert", command.details.authorities,
                           "file of certificates that vouch for the added source, in PEM")
                ->type_name("FILE"),
            app.add_option("--channel", command.details.channel, "channel of the added IMGAPI server"),
            app.add_option("--proxy", command.details.proxy,
                           "proxy that the added source is reached through, or none; default: that of the environment")
                ->type_name("URL")};
}

void add_sources_command(CLI::App& app, Run& run) {
    auto command = std::make_shared<SourcesCommand>();
    auto* const add =
        app.add_option("-a,--add", command->added, "add a source")->type_name("URL")->allow_extra_args(false);
    auto* const remove =
        app.add_option("-d,--delete", command->removed, "remove a source")->type_name("URL")->allow_extra_args(false);
    auto* const edit = app.add_flag("-e,--edit", command->is_edit, "edit the sources with $EDITOR");
    auto* const check = app.add_flag("-c,--check", command->is_check, "ask each source whether it answers");
    auto* const json = app.add_flag("-j,--json", command->is_json, "print JSON");
    app.add_flag("-v,--verbose", command->is_verbose, "also list the type and signature policy of each");
    add->excludes(remove)->excludes(edit)->excludes(check)->excludes(json);
    remove->excludes(edit)->excludes(check)->excludes(json);
    edit->excludes(check)->excludes(json);
    check->excludes(json);
    std::vector<CLI::Option*> const details = add_details(app, *command);
    auto* const add_words = app.add_subcommand("add", "add sources");
    add_words->add_option("url", command->added)->required();
    auto* const remove_words = app.add_subcommand("remove", "remove sources");
    remove_words->add_option("url", command->removed)->required();
    auto* const list_words = app.add_subcommand("list", "list the sources");
    app.require_subcommand(0, 1);
    for (CLI::App* const words : app.get_subcommands({}))
        words->fallthrough();
    app.callback([=, &run] {
        auto const actions =
            std::to_array<bool>({add->count() != 0, add_words->parsed(), remove->count() != 0, remove_words->parsed(),
                                 command->is_edit, command->is_check, list_words->parsed()});
        if (std::ranges::count(actions, true) > 1)
            throw CLI::ValidationError("only one of --add, --delete, --edit, --check and list can be asked for");
        for (CLI::Option const* const detail : details)
            if (detail->count() != 0 && command->added.empty())
                throw CLI::ValidationError(detail->get_name() + " is for a source that is added");
        run = [command](Context& context) { return sources(context, *command); };
    });
}

constexpr std::array<CommandRow, 1> source_rows{{
    {"sources", "list, add and remove the sources of images", add_sources_command},
}};

}  // namespace

std::span<CommandRow const> source_commands() { return source_rows; }

}  // namespace triton::program
