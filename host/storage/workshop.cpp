#include "host/storage/workshop.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/directory_entries.h"
#include "host/storage/random_name.h"
#include "host/storage/remove_tree.h"
#include "lib/base/clock.h"

namespace triton::storage {

namespace {

constexpr milliseconds longest_pause{20};
constexpr int most_names = 16;

/// Whether the name still leads to the open file: recover() of another process may have been faster than our lock.
bool is_still(int parent, std::string const& name, int fd) {
    struct stat there;
    struct stat ours;
    return ::fstatat(parent, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(fd, &ours) == 0 &&
           there.st_ino == ours.st_ino && there.st_dev == ours.st_dev;
}

/// Turns "layers/a" into "layers@a@" and a number that nobody else has.
std::string item_name(std::string_view purpose) {
    std::string name(purpose);
    std::ranges::replace(name, '/', '@');
    return name + '@' + random_name();
}

std::string purpose_of(std::string const& item) {
    std::string purpose = item.substr(0, item.rfind('@'));
    std::ranges::replace(purpose, '@', '/');
    return purpose;
}

}  // namespace

bool try_lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

Result<> lock(int fd, Sharing sharing, std::string const& what, std::chrono::milliseconds patience) {
    // The kernel has no lock with a time limit, so we try again, less and less often.
    auto const deadline = std::chrono::steady_clock::now() + patience;
    auto pause = milliseconds(1);
    while (::flock(fd, (sharing == Sharing::alone ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return fail(errno, "lock " + what);
        if (std::chrono::steady_clock::now() >= deadline)
            return fail(ErrorKind::busy, "lock " + what,
                        "another process has been using it for " + std::to_string(patience.count()) + " ms");
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, longest_pause);
    }
    return {};
}

Result<Workshop> Workshop::open(int parent, char const* name) {
    if (::mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
        return fail(errno, std::string("create directory ") + name);
    UniqueFd directory = open_directory(parent, name);
    if (!directory) return fail(errno, std::string("open directory ") + name);
    return Workshop(std::move(directory));
}

Workshop::Item::Item(Item&& other) noexcept
    : workshop_(other.workshop_), name_(std::move(other.name_)), directory_(std::move(other.directory_)) {
    other.name_.clear();
}

Workshop::Item::~Item() { (void)remove(); }  // if this fails, recover() removes it

Result<> Workshop::Item::remove() {
    if (name_.empty()) return {};
    std::string const name = std::move(name_);
    name_.clear();
    return remove_tree(workshop_, name);
}

Result<Workshop::Item> Workshop::make(std::string_view purpose) {
    for (int attempt = 0; attempt < most_names; ++attempt) {
        std::string name = item_name(purpose);
        if (::mkdirat(fd(), name.c_str(), 0700) != 0) return fail(errno, "create " + std::string(purpose));
        UniqueFd directory = open_directory(fd(), name);
        if (directory && try_lock(directory.get()) && is_still(fd(), name, directory.get()))
            return Item(fd(), std::move(name), std::move(directory));
    }
    return fail(ErrorKind::busy, "create " + std::string(purpose), "it is removed again and again");
}

Result<Workshop::Item> Workshop::take(int parent, std::string const& name, UniqueFd directory,
                                      std::string_view purpose) {
    std::string item = item_name(purpose);
    if (::renameat(parent, name.c_str(), fd(), item.c_str()) != 0) return fail(errno, "remove " + std::string(purpose));
    return Item(fd(), std::move(item), std::move(directory));
}

Result<> Workshop::recover(std::string const& path, std::vector<std::string>& removed, Before const& before) {
    DirectoryReader reader;
    std::vector<std::string> names;
    TRY(reader.read(
        fd(),
        [&](std::string const& name, unsigned char /*type*/) -> Result<> {
            names.push_back(name);
            return {};
        }));
    Result<> result;
    for (std::string const& name : names) {
        UniqueFd directory = open_directory(fd(), name);
        if (!directory || !try_lock(directory.get()) || !is_still(fd(), name, directory.get())) continue;
        Item item(fd(), name, std::move(directory));
        auto gone = before ? before(purpose_of(name)) : Result<>{};
        if (gone)
            gone = item.remove();
        else
            item.forget();
        if (gone) removed.push_back(purpose_of(name));
        if (!gone && result) result = fail(gone.error().kind, "remove " + path + "/" + name, gone.error().text());
    }
    return result;
}

}  // namespace triton::storage
