#include "launcher/rooms/configuration_keeper.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include <sys/stat.h>
#include <unistd.h>

#include "launcher/plan/document.h"
#include "launcher/plan/remarks.h"
#include "launcher/rooms/agent_host.h"
#include "lib/base/duration.h"
#include "lib/base/far_files.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr Duration time_for_labels = std::chrono::seconds(15);
constexpr Duration time_to_reap = milliseconds(50);              // a killed helper, before another one starts
constexpr Duration time_to_answer = std::chrono::seconds(10);    // a file system that hangs, before another try
constexpr Duration time_to_try_again = std::chrono::seconds(1);  // a helper that could not be started

/// Loads a configuration if PID 1 has the time for it; nullopt: a load of that kind would take too long.
std::optional<std::expected<Accepted, Rejected>> load_if_quick(LoadKind kind, SourceTexts const& texts,
                                                               SourceOptions const& source,
                                                               char const* const* environment) {
    if (!may_be_loaded(kind, texts, environment)) return std::nullopt;
    auto loaded = load_configuration(texts, source, environment, BinaryCheck::required, kind, nullptr);
    if (!loaded && loaded.error().is_too_much) return std::nullopt;
    return loaded;
}

/// Tells texts apart. Of what cannot be read only the kind of the error counts: its words may be made clearer later.
std::size_t hash_of_texts(SourceTexts const& texts) {
    auto const of_error = [](Error const& error) {
        return static_cast<std::size_t>(error.code) * 31 + static_cast<std::size_t>(error.kind);
    };
    std::size_t const document = texts.document ? hash_of(*texts.document) : of_error(texts.document.error());
    std::size_t const variables = texts.environment_file ? std::hash<std::string>{}(*texts.environment_file)
                                                         : of_error(texts.environment_file.error());
    return document * 31 + variables;
}

/// The refusal of a configuration that is good but cannot become active. Its files are watched all the same.
Rejected refusal(Accepted const& loaded) {
    return {.warnings = loaded.warnings, .missing_binaries = loaded.missing_binaries, .document = loaded.document};
}

}  // namespace

ConfigurationKeeper::ConfigurationKeeper(LaunchOptions const& options, SourceOptions& source,
                                         char const* const* environment, Sys& sys, EventLoop& loop, log::Log& log,
                                         Supervisor const& supervisor, Children& children, Programs& programs,
                                         EventSink& events, ControlLine const& line)
    : options_(options),
      source_(source),
      environment_(environment),
      log_(log),
      supervisor_(supervisor),
      programs_(programs),
      events_(events),
      line_(line),
      ledger_(line),
      asker_(sys, children),
      scout_(children, scout_key),
      judge_(source, environment, children),
      watch_(
          loop, log, [this] { look_again(); }, [this] { scout_ahead(); }),
      began_(steady_clock::now()) {}

Result<std::vector<config::Layer>> ConfigurationKeeper::read() {
    if (!options_.built_in.configuration.empty()) return one_layer(options_.built_in.configuration);
    Document document = read_document(options_.configuration_path, [this](std::string const& path) {
        return !seen_.are_complete() || seen_.have(path);
    });
    is_overtaken_ = document.is_cut_short;
    included_ = std::move(document.watched);
    has_directory_ = true;
    if (!document.layers) check_directory(document.layers.error());
    return std::move(document.layers);
}

/// Notes when the configuration cannot be read because its directory is missing, and names that.
void ConfigurationKeeper::check_directory(Error& error) {
    std::string const& path = options_.configuration_path;
    std::string const directory = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
    struct stat status;
    if (::stat(directory.c_str(), &status) == 0) {
        has_directory_ = S_ISDIR(status.st_mode);
        if (!has_directory_) error.reason = directory + " is not a directory";
    } else if (errno == ENOENT || errno == ENOTDIR) {
        has_directory_ = false;
        error.reason = directory + " does not exist";
    }
}

// The start.

ConfigurationKeeper::FirstLook ConfigurationKeeper::look_first() {
    FirstLook first;
    if (waits_for_pod()) {
        first.rejected = Rejected{};
        first.may_be_good = true;
        return first;
    }
    seen_.forget();
    auto const ask = [this] {
        rehearse(LoadKind::first);
        return std::string();
    };
    if (may_any_file_hang() && !asker_.ask(ask)) return defer();
    SourceTexts texts = read_source(read(), source_);
    if (!is_as_seen(texts)) return defer();
    auto loaded = load_if_quick(LoadKind::first, texts, source_, environment_);
    if (!loaded) return defer();
    if (!*loaded) {
        first.rejected = std::move(loaded->error());
    } else {
        Rejected refused = refusal(**loaded);
        if (Result<> const activated = activate(std::move(**loaded)); !activated) {
            refused.errors.push_back(activated.error().text());
            first.rejected = std::move(refused);
        }
    }
    first.may_be_good = first.rejected && may_labels_come(*first.rejected);
    // A plan that depends on further files is made once more when all of these are watched.
    if (!first.rejected && active()->missing_binaries.empty()) first_texts_ = std::move(texts);
    return first;
}

ConfigurationKeeper::FirstLook ConfigurationKeeper::defer() {
    is_first_deferred_ = true;
    return {.rejected = Rejected{.is_too_much = true}, .may_be_good = true};
}

void ConfigurationKeeper::tell(FirstLook first) {
    if (waits_for_pod())
        return log_.write(log::LogLevel::info, "waiting-for-pod", "waiting for the annotations of the pod");
    if (is_first_deferred_) return;
    first.rejected ? reject(std::move(*first.rejected)) : tell_active();
}

void ConfigurationKeeper::tell_waiting() const {
    log_.write(log::LogLevel::warning, "waiting-for-configuration",
               "waiting for a good configuration in " + options_.configuration_path,
               {{"path", std::string_view(options_.configuration_path)}});
}

// What is accepted.

Result<> ConfigurationKeeper::activate(Accepted loaded) {
    return programs_.activate(&loaded, true, [&] { ledger_.accept(std::move(loaded)); });
}

Result<> ConfigurationKeeper::activate_again() { return programs_.activate(active(), false); }

/// Returns whether the load is done; otherwise a helper judges the configuration.
bool ConfigurationKeeper::begin_load() {
    SourceTexts texts = read_source(read(), source_);
    is_overtaken_ = !is_as_seen(texts);
    if (is_overtaken_) return true;
    times_overtaken_ = 0;
    read_texts_ = hash_of_texts(texts);
    // Nothing has changed between the start and the moment when the watch began.
    if (auto const first = std::exchange(first_texts_, std::nullopt); first && *first == texts) return true;
    auto loaded = load_if_quick(LoadKind::small, texts, source_, environment_);
    if (loaded) {
        take(std::move(*loaded));
        return true;
    }
    judge_.begin(std::move(texts));
    return !judge_.is_busy();  // busy: the helper could not be started
}

void ConfigurationKeeper::take(std::expected<Accepted, Rejected> loaded) {
    if (!loaded) return reject(std::move(loaded.error()));
    if (ledger_.says_the_same(*loaded)) {
        forget_rejection();
        missing_binaries_ = std::move(loaded->missing_binaries);
        bool const is_odd_anew = active()->warnings != loaded->warnings;
        ledger_.accept_words(std::move(loaded->text), std::move(loaded->warnings));
        if (is_odd_anew) tell_oddities();  // a key that was mistyped changes nothing
        log_.write(log::LogLevel::debug, "configuration-unchanged", options_.configuration_path + " is unchanged",
                   {{"path", std::string_view(options_.configuration_path)}});
        return;
    }
    Rejected refused = refusal(*loaded);
    try {
        if (Result<> const activated = activate(std::move(*loaded)); !activated)
            refused.errors.push_back(activated.error().text());
    } catch (std::bad_alloc const&) {
        refused.errors.emplace_back("not enough memory for its processes");
    }
    if (!refused.errors.empty()) return reject(std::move(refused));
    forget_rejection();
    missing_binaries_ = active()->missing_binaries;
    has_news_ = true;
    tell_active();
}

void ConfigurationKeeper::tell_oddities() const {
    std::vector<std::string> const& warnings = ledger_.active()->warnings;
    if (warnings.empty()) return;
    std::string_view const path = options_.configuration_path;
    log_.write(log::LogLevel::warning, "configuration-warning",
               "the configuration " + std::string(path) + " has oddities:",
               {{"path", path}, {"warnings", std::span<std::string const>(warnings)}});
}

void ConfigurationKeeper::tell_active() const {
    if (!options_.built_in.configuration.empty()) return;  // nobody has written a built-in configuration
    tell_oddities();
    Accepted const& active = *ledger_.active();
    std::string_view const path = options_.configuration_path;
    for (std::string const& remark : active.remarks)
        log_.write(log::LogLevel::info, "binary-awaited", remark, {{"path", path}});
    if (auto const remarks = remarks_on_rights(active, SignalRights::own()); !remarks.empty()) {
        log_.write(log::LogLevel::warning, "configuration-warning",
                   "the configuration " + std::string(path) + " has programs that cannot be stopped:",
                   {{"path", path}, {"warnings", std::span<std::string const>(remarks)}});
    }
    std::uint32_t const count = active.process_count();
    if (active.configuration.has_programs) {
        std::vector<std::string> names;
        for (auto const& program : active.programs)
            names.push_back(program->settings->name);
        log_.write(log::LogLevel::info, "configuration-loaded",
                   "configuration " + std::string(path) + " loaded: " + std::to_string(names.size()) +
                       (names.size() == 1 ? " program, " : " programs, ") + count_text(count),
                   {{"version", std::string_view(active.configuration.version)},
                    {"programs", std::span<std::string const>(names)},
                    {"processes", std::int64_t{count}},
                    {"path", path}});
        return;
    }
    std::string_view const binary = active.programs.front()->start->program();
    log_.write(log::LogLevel::info, "configuration-loaded",
               "configuration " + std::string(path) + " loaded: version " + active.configuration.version + ", " +
                   count_text(count) + " of " + std::string(binary),
               {{"version", std::string_view(active.configuration.version)},
                {"processes", std::int64_t{count}},
                {"binary", binary},
                {"path", path}});
}

/// At a start the labels of the node may come later than we do: it is not a fault of the configuration that they are
/// missing.
bool ConfigurationKeeper::may_labels_come(Rejected const& rejected) const {
    return rejected.misses_node_label && options_.agent.watches_node && !is_node_known_ &&
           steady_clock::now() < began_ + time_for_labels;
}

/// Whether nothing may start yet, because the pod may be isolated.
bool ConfigurationKeeper::waits_for_pod() const {
    return options_.agent.is_reporting && !is_node_known_ && !active() &&
           steady_clock::now() < began_ + options_.wait_for_pod;
}

void ConfigurationKeeper::tell_that_the_pod_is_unknown() {
    bool const has_waited = options_.agent.is_reporting && options_.wait_for_pod > Duration{} && !active();
    if (!has_waited || is_node_known_ || std::exchange(has_waited_for_pod_, true)) return;
    std::string const limit = format_duration(options_.wait_for_pod);
    log_.write(log::LogLevel::warning, "pod-unknown",
               "the annotations of the pod did not come within " + limit + "; starting without them",
               {{"limit", std::string_view(limit)}});
}

void ConfigurationKeeper::wait_for_labels() {
    watch_.read_at(began_ + time_for_labels);
    if (std::exchange(waits_for_labels_, true)) return;
    log_.write(log::LogLevel::info, "waiting-for-labels",
               "waiting for the labels of the node, which " + options_.configuration_path + " needs",
               {{"path", std::string_view(options_.configuration_path)}});
}

void ConfigurationKeeper::reject(Rejected rejected) {
    missing_binaries_ = std::move(rejected.missing_binaries);
    if (may_labels_come(rejected)) return wait_for_labels();
    if (!ledger_.reject(std::move(rejected.errors), rejected.document)) return;
    std::string_view const path = options_.configuration_path;
    std::string const what = active() ? "; the running one stays:" : ":";
    std::vector<log::LogField> fields{{"path", path}, {"errors", std::span<std::string const>(ledger_.rejection())}};
    // A misspelt key may be the reason why another one is missing.
    if (!rejected.warnings.empty()) fields.push_back({"warnings", std::span<std::string const>(rejected.warnings)});
    log_.write(log::LogLevel::error, "configuration-rejected",
               "configuration " + std::string(path) + " rejected" + what, fields);
}

void ConfigurationKeeper::forget_rejection() {
    missing_binaries_.clear();
    ledger_.forget_rejection();
}

void ConfigurationKeeper::know_node(std::vector<std::pair<std::string, std::string>> const& variables,
                                    bool have_changed) {
    bool const is_waited_for = waits_for_pod() || waits_for_labels_;
    if (!std::exchange(is_node_known_, true) && is_waited_for) ask_for_reload();
    if (!have_changed) return;
    source_.variables = variables;
    first_texts_.reset();  // the same text has another meaning now
    ask_for_reload();
}

// Watching.

Result<> ConfigurationKeeper::watch_files() {
    std::vector<std::string> paths = missing_binaries_;
    if (options_.built_in.configuration.empty()) paths.push_back(options_.configuration_path);
    if (!options_.source.environment_file.empty()) paths.push_back(options_.source.environment_file);
    paths.insert(paths.end(), included_.begin(), included_.end());
    return watch_.watch(paths);
}

void ConfigurationKeeper::look_again() {
    if (watch_.begin_look()) is_retry_ = false;
    is_put_off_ = false;
    bool const is_way_clear = std::exchange(is_way_clear_, false);
    if (supervisor_.phase() != SupervisorPhase::running) return;
    if (waits_for_pod()) {
        line_.answer_reload(outcome());
        return watch_.read_at(began_ + options_.wait_for_pod);
    }
    if (std::exchange(is_ahead_, false) && scout_.is_busy()) return;  // it follows from scouted()
    if (has_helper()) {
        looks_afterwards_ = true;
        return;
    }
    if (is_way_clear) return look();  // somebody has just been there
    scout(is_retry_ ? FileScout::Why::again : FileScout::Why::change);
}

void ConfigurationKeeper::scout(FileScout::Why why) {
    seen_.forget();
    scout_.begin([this] { rehearse(LoadKind::small); }, why);
}

/// While no look is due yet, since more changes may come.
void ConfigurationKeeper::scout_ahead() {
    if (has_helper() || waits_for_pod() || supervisor_.phase() != SupervisorPhase::running) return;
    is_ahead_ = true;
    scout(FileScout::Why::change);
}

/// A file has changed since the copy was there, and what it names now has been asked for by nobody. Somebody who
/// changes it all the time is not run after.
void ConfigurationKeeper::scout_once_more() {
    constexpr unsigned most = 4;
    if (++times_overtaken_ < most) return scout(FileScout::Why::change);
    times_overtaken_ = 0;
    put_off(time_to_reap);
}

/// Whether PID 1 has read what the copy has read, if there was one.
bool ConfigurationKeeper::is_as_seen(SourceTexts const& texts) const {
    return !is_overtaken_ && (!seen_.are_complete() || seen_.texts() == hash_of_texts(texts));
}

/// Asks for the files that a look and what follows from it ask for. Nothing of it stays: it is done in a copy.
void ConfigurationKeeper::rehearse(LoadKind kind) {
    auto const note = [this](std::string const& path) {
        seen_.add(path);
        return true;
    };
    auto document = options_.built_in.configuration.empty() ? read_document(options_.configuration_path, note).layers
                                                            : one_layer(options_.built_in.configuration);
    SourceTexts const texts = read_source(std::move(document), source_);
    if (first_texts_ != texts) {  // else nothing follows from it
        auto const loaded = load_if_quick(kind, texts, source_, environment_);
        bool const is_good = loaded && *loaded;
        for (std::size_t i = 0; is_good && i < (*loaded)->programs.size(); ++i) {
            for (std::string const& path : paths_to_open(*(*loaded)->programs[i]))
                (void)::access(path.c_str(), F_OK);
        }
    }
    seen_.complete(hash_of_texts(texts));
}

void ConfigurationKeeper::scouted(Children::Outcome const& outcome) {
    FileScout::Way const way = scout_.ended(outcome);
    if (std::exchange(is_ahead_, false) && way != FileScout::Way::hangs) {
        is_way_clear_ = way == FileScout::Way::clear;
        return;
    }
    bool const is_running = supervisor_.phase() == SupervisorPhase::running;
    if (way == FileScout::Way::unknown || !is_running) return answer_unlooked();
    if (way == FileScout::Way::clear) return look();
    if (way == FileScout::Way::taken) return put_off(time_to_reap);
    reject({.errors = {"looking at it takes longer than " + format_duration(FileScout::time_to_look) +
                       ": a file system does not answer"}});
    is_retry_ = !looks_afterwards_;  // else there has been a change meanwhile
    if (is_retry_) watch_.read_at(steady_clock::now() + time_to_answer);
    close_look();
}

void ConfigurationKeeper::put_off(Duration pause) {
    is_put_off_ = true;
    watch_.read_at(steady_clock::now() + pause);
}

void ConfigurationKeeper::answer_unlooked() const {
    bool const is_running = supervisor_.phase() == SupervisorPhase::running;
    line_.answer_reload(
        fail(ErrorKind::refused, is_running ? "an upgrade came in between" : "the launcher is stopping"));
}

/// Watches first and reads afterwards, so that no change in between is missed.
void ConfigurationKeeper::look() {
    tell_that_the_pod_is_unknown();
    if (seen_.are_complete() && seen_.texts() != read_texts_) {
        // What another document has named is not asked for: its file system may hang by now.
        missing_binaries_.clear();
        included_.clear();
    }
    watched_binaries_ = missing_binaries_;
    watched_includes_ = included_;
    is_second_load_ = false;
    watch_.end_look(watch_files());
    if (begin_load()) end_look();
}

/// Missing binaries and included files add paths to watch. What they wait for may have come before the watch began:
/// hence the second load.
void ConfigurationKeeper::end_look() {
    if (std::exchange(is_overtaken_, false)) return scout_once_more();
    bool const has_more_to_watch =
        (!missing_binaries_.empty() && missing_binaries_ != watched_binaries_) || included_ != watched_includes_;
    if (has_more_to_watch && !std::exchange(is_second_load_, true)) {
        watched_includes_ = included_;
        watch_.end_look(watch_files());
        if (begin_load()) end_look();
        return;
    }
    close_look();
}

void ConfigurationKeeper::close_look() {
    if (has_waited_in_vain() && !waits_for_a_good_one()) events_.dispatch(event::StopAsked{.exit_code = 1});
    programs_.settle_soon();
    if (std::exchange(looks_afterwards_, false)) {
        return put_off(std::exchange(could_not_judge_, false) ? time_to_try_again : time_to_reap);
    }
    line_.answer_reload(outcome());
}

bool ConfigurationKeeper::has_waited_in_vain() const {
    bool const has_waited = waits_for_labels_ || is_first_deferred_ || options_.wait_for_pod > Duration{};
    return has_waited && !active() && !ledger_.rejection().empty();
}

Result<> ConfigurationKeeper::outcome() const {
    if (ledger_.rejection().empty()) return {};
    return std::unexpected(Error{ErrorKind::internal, {}, "the configuration is rejected", ledger_.rejection()});
}

// Judged by a helper.

void ConfigurationKeeper::judged(Children::Outcome const& outcome) {
    auto judged = judge_.ended(outcome);
    if (outcome.how == process::CommandRunner::How::not_started) {
        // This is not a verdict: the helper before it is still dying, or there are too many processes. begin_load()
        // goes on.
        log_.write(log::LogLevel::warning, "judge-not-started",
                   "the configuration cannot be checked yet: " + outcome.error.text());
        looks_afterwards_ = true;
        could_not_judge_ = true;
        return;
    }
    if (!judged || supervisor_.phase() != SupervisorPhase::running) return answer_unlooked();
    // It was judged with other labels of the node: nobody knows what a load costs with these.
    if (judged->variables != source_.variables)
        looks_afterwards_ = true;
    else
        follow(*judged);
    end_look();
}

void ConfigurationKeeper::follow(DocumentJudge::Judged& judged) {
    if (judged.verdict.rejected) return reject(std::move(*judged.verdict.rejected));
    try {
        take(load_configuration(judged.texts, source_, environment_, BinaryCheck::required, LoadKind::follow,
                                &judged.verdict.findings));
    } catch (std::bad_alloc const&) {
        reject({.errors = {"not enough memory to load it"}, .document = hash_of(*judged.texts.document)});
    }
}

void ConfigurationKeeper::stop_looking() {
    if (!has_helper() && !is_put_off_) return;
    looks_afterwards_ = true;
    end_helpers();
}

void ConfigurationKeeper::end_helpers() {
    scout_.cancel();
    judge_.cancel();
    if (std::exchange(is_put_off_, false)) answer_unlooked();
}

void ConfigurationKeeper::go_on_looking() {
    if (std::exchange(looks_afterwards_, false)) put_off(time_to_reap);
}

void ConfigurationKeeper::forget_files() {
    end_helpers();
    watch_.forget();
}

// For an upgrade.

void ConfigurationKeeper::save(UpgradeState& state) const {
    ledger_.save(state);
    state.configuration_watch = watch_.handed();
}

void ConfigurationKeeper::restore(UpgradeState const& state) {
    is_node_known_ = true;
    watch_.adopt(state.configuration_watch);
    ledger_.restore(state);
    if (!state.has_configuration) return;
    auto loaded = load_configuration(read_source(one_layer(state.configuration), source_), source_, environment_,
                                     BinaryCheck::required, LoadKind::again, nullptr);
    if (loaded) {
        ledger_.restore(std::move(*loaded));
    } else {
        reject(std::move(loaded.error()));
    }
}

}  // namespace triton::launcher
