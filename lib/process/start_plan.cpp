#include "lib/process/start_plan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ranges>
#include <utility>

#include <fcntl.h>
#include <linux/filter.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/joined.h"
#include "lib/base/new_calls.h"
#include "lib/files/confined_path.h"

namespace triton::process {

namespace {

/// Whether an entry NAME=value has this name.
bool is_named(std::string_view entry, std::string_view name) {
    return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
}

constexpr std::string_view default_path = "/usr/local/bin:/usr/bin:/bin";

/// Opens a path as the process would see it, only to look at the file.
Result<UniqueFd> open_for_process(std::string const& path, Attributes const& with) {
    std::string const& directory = with.working_directory;
    std::string const full = path.starts_with('/')          ? path
                             : !directory.empty()           ? directory + "/" + path
                             : !with.root_directory.empty() ? "/" + path
                                                            : path;
    return files::open_confined(with.root_directory, full, O_PATH | O_CLOEXEC);
}

std::string inside(Attributes const& with) {
    return with.root_directory.empty() ? "" : " inside " + with.root_directory;
}

/// Checks that a file can be executed. Errors: why it cannot.
Result<> check_executable(std::string const& path, Attributes const& with) {
    std::string const what = "execute " + path + inside(with);
    auto const file = open_for_process(path, with);
    if (!file) return fail(file.error().kind, what, file.error().reason);
    struct stat status;
    if (::fstat(file->get(), &status) != 0) return fail(errno, what);
    if (!S_ISREG(status.st_mode)) return fail("cannot " + what + ": is not a file");
    if (status.st_size == 0) return fail("cannot " + what + ": is empty");
    // Through the descriptor: with another root directory the path would lead elsewhere from here.
    std::string const own = "/proc/self/fd/" + std::to_string(file->get());
    if (check_access(AT_FDCWD, own.c_str(), X_OK) != 0 && errno == EACCES) return fail(EACCES, what);
    return {};
}

}  // namespace

Result<std::string> find_program(std::string const& word, std::vector<std::string> const& environment,
                                 Attributes const& with) {
    if (word.find('/') != std::string::npos) {
        TRY(check_executable(word, with));
        return word;
    }
    auto const entry =
        std::ranges::find_if(environment, [](std::string const& text) { return is_named(text, "PATH"); });
    std::string_view rest = entry == environment.end() ? default_path : std::string_view(*entry).substr(5);
    std::string const searched(rest);
    std::optional<Error> refused;  // found but not executable: like execvp(3) we go on
    for (bool is_last = false; !is_last && !word.empty();) {
        std::size_t const colon = rest.find(':');
        is_last = colon == std::string_view::npos;
        std::string path(rest.substr(0, colon));
        if (!is_last) rest.remove_prefix(colon + 1);
        path.append(path.empty() ? "./" : "/").append(word);
        auto const checked = check_executable(path, with);
        if (checked) return path;
        if (checked.error().kind != ErrorKind::not_found && !refused) refused = checked.error();
    }
    if (refused) return std::unexpected(std::move(*refused));
    return fail(ErrorKind::not_found, "cannot find \"" + word + "\" in PATH (" + searched + ")" + inside(with));
}

SharedEnvironment::SharedEnvironment(std::vector<std::string> entries)
    : SharedEnvironment(std::shared_ptr<Block const>(), {}, std::move(entries)) {}

SharedEnvironment::SharedEnvironment(std::shared_ptr<Block const> base, std::vector<char*> kept,
                                     std::vector<std::string> own) {
    if (kept.empty()) base.reset();
    auto const block = std::make_shared<Block>(Block{std::move(base), std::move(own), std::move(kept)});
    block->pointers.reserve(block->pointers.size() + block->own.size() + 1);
    for (std::string& entry : block->own)
        block->pointers.push_back(entry.data());
    block->pointers.push_back(nullptr);
    block_ = block;
}

SharedEnvironment::SharedEnvironment(SharedEnvironment const& base, std::string own)
    : SharedEnvironment(base, {base.entries().begin(), base.entries().end()}, {std::move(own)}) {}

bool SharedEnvironment::operator==(SharedEnvironment const& other) const {
    auto const is_same = [](char const* one, char const* another) {
        return one == another || std::strcmp(one, another) == 0;
    };
    // What differs is mostly what a program has added, at the end.
    return block_ == other.block_ ||
           std::ranges::equal(std::views::reverse(entries()), std::views::reverse(other.entries()), is_same);
}

/// Prepares pointers and numbers, so that the child has nothing to work out.
SharedAttributes::Block::Block(Attributes attributes) : all(std::move(attributes)) {
    Attributes const& with = all;
    auto const text_or_null = [](std::string const& text) { return text.empty() ? nullptr : text.c_str(); };
    child.root_directory = text_or_null(with.root_directory);
    child.working_directory = text_or_null(with.working_directory);
    for (ResourceLimit const& limit : with.limits)
        limits.push_back({limit.resource, {limit.soft, limit.hard}});
    child.limits = limits.data();
    child.limit_count = static_cast<unsigned>(limits.size());
    mask = cpu_mask(with.cpu_affinity);
    child.cpu_mask = mask.data();
    child.cpu_mask_bytes = static_cast<unsigned>(mask.size() * sizeof(unsigned long));
    if (auto const& groups = with.identity.supplementary_groups) {
        child.has_groups = true;
        child.groups = groups->data();
        child.group_count = static_cast<unsigned>(groups->size());
    }
    auto const set = [](auto const& value, bool& has, auto& into) {
        has = value.has_value();
        if (has) into = static_cast<std::remove_reference_t<decltype(into)>>(*value);
    };
    set(with.identity.group, child.has_group, child.group);
    set(with.identity.user, child.has_user, child.user);
    set(with.umask, child.has_umask, child.umask);
    set(with.nice, child.has_nice, child.nice);
    set(with.parent_death_signal, child.has_parent_death_signal, child.parent_death_signal);
    if (with.oom_score_adj) {
        std::string const text = std::to_string(*with.oom_score_adj);
        std::memcpy(child.oom_score_adj, text.data(), text.size());  // -1000 to 1000
        child.oom_score_adj_length = static_cast<unsigned>(text.size());
    }
    if (with.capabilities) {
        child.has_capabilities = true;
        child.drop_bounding = with.capabilities->drop;
        child.inheritable = with.capabilities->inheritable;
        child.ambient = with.capabilities->ambient;
    }
    child.no_new_privileges = with.no_new_privileges;
    child.is_foreground = with.is_foreground;
    if (with.seccomp) {
        seccomp = with.seccomp->program();
        child.seccomp = &seccomp;
    }
    child.landlock = with.landlock ? with.landlock->fd() : -1;
    is_needed = child.root_directory || child.working_directory || child.limit_count > 0 || child.cpu_mask_bytes > 0 ||
                child.has_groups || child.has_group || child.has_user || child.has_umask || child.has_nice ||
                child.has_parent_death_signal || child.oom_score_adj_length > 0 || child.has_capabilities ||
                child.no_new_privileges || child.is_foreground || child.seccomp || child.landlock >= 0;
}

SharedAttributes::SharedAttributes(Attributes attributes)
    : block_(std::make_shared<Block const>(std::move(attributes))) {}

namespace {

/// Returns the environment with the variables that the attributes define.
SharedEnvironment completed(SharedEnvironment environment, Attributes const& attributes) {
    if (attributes.listen_names.empty() && attributes.watchdog_microseconds == 0) return environment;
    std::vector<char*> kept(environment.entries().begin(), environment.entries().end());
    std::vector<std::string> own;
    auto const replace = [&](std::string_view variable, std::string const& value) {
        std::erase_if(kept, [variable](char const* entry) { return is_named(entry, variable); });
        if (!value.empty()) own.push_back(std::string(variable) + "=" + value);
    };
    if (!attributes.listen_names.empty()) {
        replace("LISTEN_PID", "");  // set for each child
        replace("LISTEN_FDS", std::to_string(attributes.listen_names.size()));
        replace("LISTEN_FDNAMES", joined(attributes.listen_names, ":"));
    }
    if (attributes.watchdog_microseconds > 0) {
        replace("WATCHDOG_PID", "");  // set for each child
        replace("WATCHDOG_USEC", std::to_string(attributes.watchdog_microseconds));
    }
    return {environment, std::move(kept), std::move(own)};
}

}  // namespace

StartPlan::StartPlan(std::string program, SharedEnvironment environment, CommandTemplate command,
                     NumberedParts numbered, SharedAttributes attributes, std::string name)
    : program_(std::move(program)),
      name_(std::move(name)),
      environment_(completed(std::move(environment), attributes.all())),
      command_(std::move(command)),
      numbered_(std::move(numbered)),
      attributes_(std::move(attributes)) {
    for (SharedEnvironment& own : numbered_.environments)
        own = completed(std::move(own), attributes_.all());
}

std::string StartPlan::working_directory(ProcessNumber number) const {
    return numbered_.directory ? numbered_.directory->arguments(number).front() : attributes().working_directory;
}

}  // namespace triton::process
