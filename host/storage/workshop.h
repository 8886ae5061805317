#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// Locks an open file (borrowed) with flock(2), until the last copy of the descriptor is closed.
/// Errors: `busy`, "lock <what>: another process has been using it for 30 s".
enum class Sharing : bool { alone, together };
Result<> lock(int fd, Sharing sharing, std::string const& what, std::chrono::milliseconds patience);
/// The same without waiting. Returns whether the lock is ours.
bool try_lock(int fd);

/// A directory for things that do not have a name yet, or have lost it. Each is a directory of its own, locked by the
/// process that works on it. One that nobody has locked is left over from a killed process.
class Workshop {
public:
    /// Makes the directory when it is missing. Errors: those of mkdirat(2) and openat(2).
    static Result<Workshop> open(int parent, char const* name);

    /// A locked directory in the workshop. Its destructor removes what still has its name there.
    class Item {
    public:
        Item(int workshop, std::string name, UniqueFd directory)
            : workshop_(workshop), name_(std::move(name)), directory_(std::move(directory)) {}
        Item(Item&& other) noexcept;
        Item& operator=(Item&&) = delete;
        ~Item();

        [[nodiscard]] int fd() const { return directory_.get(); }
        [[nodiscard]] std::string const& name() const { return name_; }
        [[nodiscard]] int workshop() const { return workshop_; }
        /// To be called when it has been moved out, and is no longer ours.
        void forget() { name_.clear(); }
        /// Removes it like the destructor, and returns errors.
        Result<> remove();

    private:
        int workshop_;
        std::string name_;
        UniqueFd directory_;
    };

    /// Makes a new, empty one. `purpose` tells what it is for if it is left over. Errors: those of mkdirat(2).
    Result<Item> make(std::string_view purpose);
    /// Moves an open, locked directory in here. Errors: those of renameat(2).
    Result<Item> take(int parent, std::string const& name, UniqueFd directory, std::string_view purpose);
    /// Removes items that nobody works on, and adds their purposes to a list. `before`, if given, is called with each
    /// purpose first. `path`: its own, for errors. Errors: the first one; it goes on.
    using Before = std::function<Result<>(std::string const& purpose)>;
    Result<> recover(std::string const& path, std::vector<std::string>& removed, Before const& before);

    [[nodiscard]] int fd() const { return directory_.get(); }

private:
    explicit Workshop(UniqueFd directory) : directory_(std::move(directory)) {}
    UniqueFd directory_;
};

}  // namespace triton::storage
