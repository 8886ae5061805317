#include "host/machine/store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "host/machine/listing.h"
#include "host/machine/properties.h"
#include "host/machine/values.h"
#include "lib/base/next_entry.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"
#include "lib/files/copy_file.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"

namespace triton::machine {

namespace {

constexpr std::size_t most_stored_bytes = 16 << 20;
constexpr std::size_t most_exit_bytes = 4096;
constexpr off_t most_history_bytes = 1 << 20;
constexpr std::size_t most_detail = 64 << 10;  // of one event, because the whole history is read at once
constexpr std::string_view json_ending = ".json";

std::pair<std::string, std::string> split_path(std::string const& path) {
    std::size_t const slash = path.rfind('/');
    return {path.substr(0, slash), path.substr(slash + 1)};
}

/// Makes changes of names in a directory durable.
Result<> sync_directory(std::string const& directory, std::string const& path) {
    UniqueFd const file{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!file || ::fsync(file.get()) != 0) return fail(errno, "write " + path);
    return {};
}

/// The names in a directory that end in ".json", sorted; none when the directory does not exist.
Result<std::vector<std::string>> json_names(std::string const& path) {
    std::vector<std::string> names;
    std::unique_ptr<DIR, int (*)(DIR*)> const directory(::opendir(path.c_str()), ::closedir);
    if (!directory && errno == ENOENT) return names;
    if (!directory) return fail(errno, "open " + path);
    while (dirent const* const entry = TRY(next_entry(directory.get(), path))) {
        std::string_view const name = entry->d_name;
        if (!name.starts_with(".") && name.ends_with(json_ending))
            names.emplace_back(name.substr(0, name.size() - json_ending.size()));
    }
    std::ranges::sort(names);
    return names;
}

/// Tells who holds a lock, from its file.
std::string owner_text(int file) {
    std::string text(256, '\0');
    ssize_t const got = ::pread(file, text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text.empty() ? "another command" : text::printable(text);
}

/// Interrupts a system call after a while, because flock(2) has no time limit.
class Alarm {
public:
    explicit Alarm(milliseconds limit) {
        struct sigaction action{};
        action.sa_handler = [](int) {};  // without SA_RESTART
        ::sigaction(SIGALRM, &action, &before_);
        auto const seconds = limit.count() / 1000;
        itimerval timer{};
        timer.it_value = {seconds, static_cast<suseconds_t>(limit.count() % 1000 * 1000)};
        timer.it_interval = {0, 10'000};  // repeated, in case the first one came before the call
        ::setitimer(ITIMER_REAL, &timer, nullptr);
    }
    Alarm(Alarm const&) = delete;
    Alarm& operator=(Alarm const&) = delete;
    ~Alarm() {
        itimerval const none{};
        ::setitimer(ITIMER_REAL, &none, nullptr);
        ::sigaction(SIGALRM, &before_, nullptr);
    }

private:
    struct sigaction before_{};
};

std::string mark_text(Mark const& mark) {
    json::Writer out;
    out.open('{').member("operation", mark.operation).member("data", mark.data);
    out.member("step", mark.step).member("undone", mark.is_undone);
    out.member("running", mark.was_running).close('}');
    return std::move(out).text() + "\n";
}

Result<Mark> parse_mark(std::string const& text, std::string const& path) {
    json::Reading reading(1);
    auto const node = json::read_json(text, json::Limits{.document_bytes = most_stored_bytes}, reading.problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    Mark mark;
    for (json::Member const& member : object ? *object : json::Object{}) {
        auto const* const value = member.node.get<std::string>();
        auto const* const number = member.node.get<std::int64_t>();
        auto const* const flag = member.node.get<bool>();
        if (member.key == "operation" && value) mark.operation = *value;
        if (member.key == "data" && value) mark.data = *value;
        if (member.key == "step" && number && *number >= 0) mark.step = static_cast<std::size_t>(*number);
        if (member.key == "undone" && flag) mark.is_undone = *flag;
        if (member.key == "running" && flag) mark.was_running = *flag;
    }
    if (mark.operation.empty()) return fail(ErrorKind::corrupt, "read " + path, "it is not a mark of an operation");
    return mark;
}

/// Room for changes of what exists already: on a full disk even a deletion that makes room could not be marked. There
/// are two files, because the disk may lack inodes instead of blocks: while one file is replaced, there are two of it.
class Reserve {
public:
    explicit Reserve(std::string const& state) : paths_{state + "/reserve", state + "/reserve.2"} {}

    /// Replaces a file, with the room of the reserve if there is no other.
    [[nodiscard]] Result<> replace(std::string const& path, std::string const& content) const {
        auto const written = replace_file(path, content, 0600);
        if (written || !is_full(written.error()) || !give()) return written;
        return replace_file(path, content, 0600);
    }
    void restore() const {
        constexpr std::size_t room = 8 << 10;  // of each
        for (std::string const& path : paths_)
            if (::access(path.c_str(), F_OK) != 0)
                (void)replace_file(path, std::string(room, '.'), 0600);  // as long as there is no room: later
    }

private:
    static bool is_full(Error const& error) { return error.code == ENOSPC || error.code == EDQUOT; }
    [[nodiscard]] bool give() const {
        bool is_given = false;
        for (std::string const& path : paths_)
            is_given = ::unlink(path.c_str()) == 0 || is_given;
        return is_given;
    }
    std::array<std::string, 2> paths_;
};

class FileJournal final : public Journal {
public:
    FileJournal(std::string path, Reserve reserve, bool may_use_reserve)
        : path_(std::move(path)), reserve_(std::move(reserve)), may_use_reserve_(may_use_reserve) {}
    Result<> write(Mark const& mark) override {
        return may_use_reserve_ ? reserve_.replace(path_, mark_text(mark)) : replace_file(path_, mark_text(mark), 0600);
    }
    Result<> remove() override {
        auto const removed = remove_file(path_);
        reserve_.restore();
        return removed;
    }

private:
    std::string path_;
    Reserve reserve_;
    bool may_use_reserve_;
};

/// Whether a path still leads to an open file.
bool is_still(std::string const& path, int file) {
    struct stat open{}, named{};
    return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
           open.st_dev == named.st_dev;
}

bool ends_in_a_line(int file, off_t size) {
    char last = '\n';
    return size == 0 || ::pread(file, &last, 1, size - 1) != 1 || last == '\n';
}

/// Adds a whole line or nothing: on a full disk a part of it may be written. What a command that was killed has left of
/// its line is ended first, so that it spoils no other.
Result<> append_line(int file, std::string line, std::string const& path) {
    (void)::flock(file, LOCK_EX);  // until the file is closed; without it two commands may spoil their lines
    struct stat status{};
    if (::fstat(file, &status) != 0) return fail(errno, "look at " + path);
    if (!ends_in_a_line(file, status.st_size)) line.insert(0, "\n");
    if (write_all(file, line)) return {};
    int const err = errno;
    (void)::ftruncate(file, status.st_size);
    return fail(err, "write " + path);
}

/// Gives a full history another name, unless another command has done that since it was opened: its successor would go
/// over it. Whoever does it has locked the file until it is closed.
void move_away(int file, std::string const& path) {
    if (::flock(file, LOCK_EX) == 0 && is_still(path, file)) (void)::rename(path.c_str(), (path + ".1").c_str());
}

}  // namespace

Result<> replace_file(std::string const& path, std::string_view content, mode_t mode) {
    auto const [directory_path, name] = split_path(path);
    UniqueFd const directory = TRY(files::make_directories(directory_path));
    files::Target const target{directory.get(), name, path};
    files::Prepared prepared = TRY(files::prepare_file(content, mode, target, {}));
    (void)TRY(files::publish(std::move(prepared)));
    return sync_directory(directory_path, path);
}

Result<> remove_file(std::string const& path) {
    if (::unlink(path.c_str()) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return {};
        return fail(errno, "remove " + path);
    }
    return sync_directory(split_path(path).first, path);
}

bool Store::exists(Uuid const& uuid) const {
    return ::access(file_of(uuid).c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

Result<Machine> Store::load(Uuid const& uuid) const {
    auto text = read_file(file_of(uuid), most_stored_bytes);
    if (!text && text.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::not_found, "VM " + uuid.text() + " not found");
    if (!text) return std::unexpected(std::move(text).error());
    Machine machine = TRY(parse_file(*text, file_of(uuid)));
    if (machine.uuid != uuid)
        return fail(ErrorKind::corrupt, "read " + file_of(uuid), "it has the uuid of another one");
    return machine;
}

Result<> Store::save(Machine const& machine) const {
    if (!exists(machine.uuid)) return replace_file(file_of(machine.uuid), file_text(machine), 0600);
    return Reserve(layout_.state()).replace(file_of(machine.uuid), file_text(machine));
}

Result<> Store::save_alone(Machine const& machine) const {
    auto saved = save(machine);
    Reserve(layout_.state()).restore();
    return saved;
}

Result<> Store::remove(Uuid const& uuid) const {
    TRY(remove_file(exit_of(uuid)));  // first: who is killed in between finds the machine, and removes it again
    return remove_file(file_of(uuid));
}

Result<> Store::archive(Uuid const& uuid, std::string const& text) const {
    return Reserve(layout_.state()).replace(layout_.archive() + "/" + uuid.text() + ".json", text);
}

std::optional<LastExit> Store::last_exit(Uuid const& uuid) const {
    auto const text = read_file(exit_of(uuid), most_exit_bytes);
    if (!text) return std::nullopt;
    auto const exit = parse_last_exit(*text, exit_of(uuid));
    return exit ? std::optional(*exit) : std::nullopt;
}

Result<> Store::save_last_exit(Uuid const& uuid, LastExit const& exit) const {
    return replace_file(exit_of(uuid), last_exit_text(exit), 0600);
}

std::int64_t Store::modified_at(Uuid const& uuid) const {
    struct stat status{};
    if (::stat(file_of(uuid).c_str(), &status) != 0) return 0;
    return status.st_mtim.tv_sec * 1'000'000 + status.st_mtim.tv_nsec / 1000;
}

void Store::touch(Uuid const& uuid) const {
    (void)::utimensat(AT_FDCWD, file_of(uuid).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

std::optional<std::int64_t> Store::uids_of_broken(std::string_view name) const {
    static constexpr std::string_view key = R"("first_uid":)";
    auto const text =
        read_file(layout_.machines() + "/" + std::string(name) + std::string(json_ending), most_stored_bytes);
    std::size_t const at = text ? text->find(key) : std::string::npos;
    if (at == std::string::npos) return std::nullopt;
    return std::strtoll(text->c_str() + at + key.size(), nullptr, 10);
}

Result<std::vector<std::string>> Store::names() const { return json_names(layout_.machines()); }

Result<Machine> Store::read_misnamed(std::string const& name) const {
    struct stat status{};
    if (::lstat((layout_.machines() + "/" + name + std::string(json_ending)).c_str(), &status) != 0)
        return fail(ErrorKind::not_found, "VM " + name + " not found");
    auto uuid = parse_uuid(name);
    if (uuid) return fail(ErrorKind::not_found, "VM " + name + " not found");  // in upper case: nobody reads it
    return std::unexpected(std::move(uuid).error());
}

Result<Store::Loaded> Store::load_all() const {
    Loaded loaded;
    for (std::string const& name : TRY(names())) {
        auto uuid = parse_uuid(name);
        auto machine = uuid ? load(*uuid) : Result<Machine>(std::unexpected(uuid.error()));
        if (machine)
            loaded.machines.push_back(std::move(*machine));
        else if (machine.error().kind != ErrorKind::not_found)  // deleted meanwhile
            loaded.broken.push_back({name, std::move(machine).error()});
    }
    return loaded;
}

Result<MachineLock> Store::lock(Uuid const& uuid, std::string_view purpose, milliseconds patience) const {
    std::string const path = layout_.state() + "/locks/" + uuid.text();
    TRY(files::make_directories(layout_.state() + "/locks"));
    // Deleting a machine removes its lock file: after locking a removed one we try again with the new one.
    for (int attempt = 0; attempt < 100; ++attempt) {
        UniqueFd file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
        if (!file) return fail(errno, "open " + path);
        int locked = ::flock(file.get(), LOCK_EX | LOCK_NB);
        if (locked != 0 && patience.count() > 0) {
            Alarm const alarm(patience);
            locked = ::flock(file.get(), LOCK_EX);
        }
        if (locked != 0) return fail(ErrorKind::busy, "VM " + uuid.text() + " is in use by " + owner_text(file.get()));
        if (!is_still(path, file.get())) continue;
        (void)::ftruncate(file.get(), 0);
        // only shown to others: it does no harm if it cannot be written
        (void)write_all(file.get(), "\"" + std::string(purpose) + "\" (process " + std::to_string(::getpid()) + ")");
        return MachineLock(std::move(file));
    }
    return fail(ErrorKind::busy, "VM " + uuid.text() + " keeps being deleted and created again");
}

bool Store::is_being_changed(Uuid const& uuid) const {
    auto const owner = read_file(layout_.state() + "/locks/" + uuid.text(), 256);
    if (!owner) return false;
    // "vmadm stop" (process 17)
    constexpr std::string_view before = " (process ";
    std::size_t const at = owner->rfind(before);
    if (!owner->starts_with("\"vmadm ") || at == owner->npos) return false;
    std::size_t const begin = at + before.size();
    auto const pid = integer_of(std::string_view(*owner).substr(begin, owner->find(')', begin) - begin));
    if (!pid || *pid <= 0) return false;
    auto const name = read_file("/proc/" + std::to_string(*pid) + "/comm", 64);
    return name && *name == "vmadm\n";
}

void Store::forget_lock(Uuid const& uuid) const { (void)::unlink((layout_.state() + "/locks/" + uuid.text()).c_str()); }

Result<std::optional<Mark>> Store::mark(Uuid const& uuid) const {
    auto const text = read_file(journal_of(uuid), most_stored_bytes);
    if (!text && text.error().kind == ErrorKind::not_found) return std::nullopt;
    if (!text) return std::unexpected(text.error());
    return TRY(parse_mark(*text, journal_of(uuid)));
}

std::unique_ptr<Journal> Store::journal(Uuid const& uuid, bool may_use_reserve) const {
    return std::make_unique<FileJournal>(journal_of(uuid), Reserve(layout_.state()), may_use_reserve);
}

Result<std::vector<Uuid>> Store::marked() const {
    std::vector<Uuid> uuids;
    for (std::string const& name : TRY(json_names(layout_.state() + "/journal"))) {
        if (auto uuid = Uuid::parse(name)) uuids.push_back(std::move(*uuid));
    }
    return uuids;
}

Result<> Store::add_event(Event const& event) const {
    std::string const path = layout_.state() + "/history.jsonl";
    TRY(files::make_directories(layout_.state()));
    json::Writer out;
    out.open('{').member("time", time_text(event.time)).member("uuid", event.uuid.text());
    out.member("command", event.command).member("outcome", event.outcome);
    if (!event.request.empty()) out.member("request", event.request);
    if (event.detail.size() > most_detail)
        out.member("detail", "left out: it has " + std::to_string(event.detail.size()) + " bytes");
    else if (!event.detail.empty())
        out.key("detail").raw(event.detail);
    out.close('}');
    UniqueFd const file{::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!file) return fail(errno, "open " + path);
    struct stat status{};
    if (::fstat(file.get(), &status) == 0 && status.st_size > most_history_bytes)
        move_away(file.get(), path);  // this line still goes into the old file
    return append_line(file.get(), std::move(out).text() + "\n", path);
}

Result<std::vector<std::string>> Store::history(std::optional<Uuid> const& uuid) const {
    std::vector<std::string> lines;
    std::string const wanted = uuid ? "\"uuid\":\"" + uuid->text() + "\"" : "";
    for (char const* const ending : {".1", ""}) {
        auto const text = read_file(layout_.state() + "/history.jsonl" + ending, 4 * most_history_bytes);
        if (!text && text.error().kind == ErrorKind::not_found) continue;
        if (!text) return std::unexpected(text.error());
        std::string_view rest = *text;
        while (!rest.empty()) {
            std::size_t const end = std::min(rest.find('\n'), rest.size());
            std::string_view const line = rest.substr(0, end);
            bool const is_whole = line.ends_with('}');  // unlike what a killed command has left
            if (is_whole && line.find(wanted) != std::string_view::npos) lines.emplace_back(line);
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    return lines;
}

}  // namespace triton::machine
