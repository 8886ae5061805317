#include "programs/frame/frame.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include <unistd.h>

#include "lib/base/error_kinds.h"
#include "lib/base/root_prefix.h"
#include "lib/base/write_all.h"
#include "lib/command/mistakes.h"
#include "lib/command/words.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/completion/usage_formatter.h"

namespace triton::program {

namespace {

constexpr std::array<std::string_view, 2> valued_options{"--root", "--socket"};

std::string json_text(Error const& error) {
    json::Writer out;
    out.open('{').key("error").open('{').member("code", row_of(error.kind).name).member("message", error.text());
    return std::move(out.key("details").list(error.details).close('}').close('}')).text() + "\n";
}

std::string shown_text(Frame const& frame, Error const& error) {
    std::string text = std::string(frame.error_prefix) + text::printable(error.text()) + "\n";
    for (std::string const& detail : error.details)
        text += "  " + text::printable(detail) + "\n";
    return text;
}

std::string version_text(Frame const& frame) { return std::string(frame.name) + " " + std::string(frame.version); }

std::string usage_text(Frame const& frame, std::span<BoundCommand const> commands) {
    std::string text = "Usage: " + std::string(frame.name) + " [OPTIONS] COMMAND ...\n\n";
    for (BoundCommand const& command : commands) {
        std::string line = "  " + std::string(command.name) + " " + std::string(command.arguments);
        if (line.size() < frame.column) line.append(frame.column - line.size(), ' ');
        text += line + "  " + std::string(command.description) + "\n";
    }
    return text + std::string(frame.about) +
           "  -E                 print errors as JSON, for programs\n"
           "  --root DIR         a directory to use instead of / [$TRITON_ROOT]\n"
           "  --socket PATH      " +
           std::string(frame.daemon) + "'s socket [" + std::string(frame.socket) +
           "]\n"
           "  -h, --help         print this text, or the options of a command\n"
           "  -V, --version      print the version\n" +
           std::string(frame.rest);
}

void build(CLI::App& app, Frame const& frame, FrameOptions& options, std::span<BoundCommand const> commands,
           BoundCommand const*& chosen) {
    app.set_help_flag();
    auto const take_root = [&options](std::string const& directory) { options.root = root_prefix(directory); };
    app.add_option_function<std::string>("--root", take_root, "A directory to use instead of /.")
        ->envname("TRITON_ROOT");
    app.add_option("--socket", options.socket, "The socket of " + std::string(frame.daemon) + ".");
    app.set_version_flag("-V,--version", version_text(frame), "The version.");
    app.add_flag("-E", options.has_json_errors, "Errors as JSON.");
    for (BoundCommand const& command : commands) {
        CLI::App& sub = *app.add_subcommand(std::string(command.name), std::string(command.description));
        std::string const line = std::string(frame.name) + " " + std::string(command.name);
        sub.formatter(std::make_shared<UsageFormatter>(line, command.arguments));
        sub.set_help_flag("-h,--help", "The options of this command.");
        if (!command.example.empty()) sub.footer("Example:\n  " + std::string(command.example));
        sub.callback([&chosen, &command] { chosen = &command; });
        sub.fallthrough();
        command.add_options(sub);
    }
    app.require_subcommand(1);
}

/// One line of words, and what is printed for it.
class Line {
public:
    Line(Frame const& frame, FrameOptions& options, std::span<BoundCommand const> commands,
         std::vector<std::string> const& words)
        : frame_(frame),
          options_(options),
          commands_(commands),
          words_(words),
          app_(std::string(frame.description), std::string(frame.name)),
          as_json_(std::ranges::find(words, "-E") != words.end()) {
        build(app_, frame, options, commands, chosen_);
    }

    int run() {
        std::size_t const place = command::place_of_command(words_, valued_options);
        std::string const* const word = place < words_.size() ? &words_[place] : nullptr;
        auto const before = std::span(words_).first(place);
        if (std::ranges::any_of(before, command::asks_for_help)) return help(nullptr);
        if (std::ranges::any_of(before, command::asks_for_version)) return told(version_text(frame_) + "\n");
        if (!word) return failed(command::missing_command(frame_.name));
        if (*word == "help") return help(place + 1 < words_.size() ? &words_[place + 1] : nullptr);
        if (!knows(*word)) return failed(command::no_such_command(frame_.name, *word, names()));
        return parse_and_run(*word);
    }

private:
    int parse_and_run(std::string const& word) {
        try {
            app_.parse(std::vector<std::string>(words_.rbegin(), words_.rend()));
        } catch (CLI::CallForHelp const&) {
            return told(app_.get_subcommand(word)->help());
        } catch (CLI::CallForVersion const&) {
            return told(version_text(frame_) + "\n");
        } catch (CLI::ParseError const& error) {
            return failed(command::mistake(app_, error));
        }
        as_json_ = options_.has_json_errors;
        if (frame_.prepare) {
            if (auto const prepared = frame_.prepare(); !prepared) return failed(prepared.error());
        }
        Outcome const outcome = chosen_->run();
        return outcome ? 0 : failed(outcome.error());
    }

    int help(std::string const* word) {
        if (!word) return told(usage_text(frame_, commands_));
        if (!knows(*word)) return failed(command::no_such_command(frame_.name, *word, names()));
        return told(app_.get_subcommand(*word)->help());
    }

    [[nodiscard]] bool knows(std::string_view name) const {
        return std::ranges::find(commands_, name, &BoundCommand::name) != commands_.end();
    }

    [[nodiscard]] std::vector<std::string_view> names() const {
        std::vector<std::string_view> all;
        for (BoundCommand const& command : commands_)
            all.push_back(command.name);
        return all;
    }

    int failed(Error const& error) const {
        // There is nobody else to report a failure of this to.
        (void)write_all(STDERR_FILENO, as_json_ ? json_text(error) : shown_text(frame_, error));
        return row_of(error.kind).exit_code;
    }

    /// Prints a text that was asked for.
    int told(std::string_view text) const {
        auto const printed = print(text);
        return printed ? 0 : failed(printed.error());
    }

    Frame const& frame_;
    FrameOptions& options_;
    std::span<BoundCommand const> commands_;
    std::vector<std::string> const& words_;
    CLI::App app_;
    BoundCommand const* chosen_ = nullptr;
    bool as_json_;
};

}  // namespace

int run_frame(Frame const& frame, FrameOptions& options, std::span<BoundCommand const> commands,
              std::vector<std::string> const& words) {
    return Line(frame, options, commands, words).run();
}

Result<std::string> completion_of(Frame const& frame, FrameOptions& scratch, std::span<BoundCommand const> commands,
                                  std::string_view shell, Things const& things, std::span<Offer const> offers) {
    CLI::App grammar{std::string(frame.description), std::string(frame.name)};
    BoundCommand const* none = nullptr;
    build(grammar, frame, scratch, commands, none);
    return completion_for(grammar, shell, things, offers);
}

Outcome expect_words(FrameOptions const& options, std::string_view command, std::size_t least, std::size_t most) {
    if (options.words.size() > most)
        return fail("too many arguments for " + std::string(command) + ": " + json::quoted(options.words[most]));
    if (options.words.size() < least) return fail("too few arguments for " + std::string(command));
    return {};
}

Result<bool> print(std::string_view text) {
    if (write_all(STDOUT_FILENO, text)) return true;
    if (errno == EPIPE) return false;
    return fail(ErrorKind::refused, "write the output", errno_text(errno));  // errno's own kind is about the daemon
}

}  // namespace triton::program
