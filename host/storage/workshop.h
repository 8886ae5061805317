#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// Takes a lock of flock(2) on something open (borrowed): it is held until the last copy of that descriptor is closed.
/// Errors: `busy`, "lock <what>: another process has been using it for 30 s".
enum class Sharing : bool { alone, together };
Result<> lock(int fd, Sharing sharing, std::string const& what, std::chrono::milliseconds patience);
/// The same without waiting. Returns whether it is ours.
bool try_lock(int fd);

/// A directory in which things are while they have no name yet, or none any more. Each is a directory of its own,
/// locked by the process that works on it: what nobody has locked is left over from one that was killed.
class Workshop {
public:
    /// Makes the directory when it is missing. Errors: those of mkdirat(2) and openat(2).
    static Result<Workshop> open(int parent, char const* name);

    /// Something in the workshop, locked. Its destructor removes what is still there under its name.
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
        /// It has been moved out, and is no longer ours.
        void forget() { name_.clear(); }
        /// Removes it, as the destructor does, and tells of errors.
        Result<> remove();

    private:
        int workshop_;
        std::string name_;
        UniqueFd directory_;
    };

    /// A new empty one. `purpose`: what it is for, for whoever finds it left over. Errors: those of mkdirat(2).
    Result<Item> make(std::string_view purpose);
    /// Moves a directory in here that is open and locked. Errors: those of renameat(2).
    Result<Item> take(int parent, std::string const& name, UniqueFd directory, std::string_view purpose);
    /// Removes what nobody works on, and adds the purposes of that to a list. `before`, if there is one, is called with
    /// each of them first. Errors: the first one; it continues.
    using Before = std::function<Result<>(std::string const& purpose)>;
    Result<> recover(std::vector<std::string>& removed, Before const& before);

    [[nodiscard]] int fd() const { return directory_.get(); }

private:
    explicit Workshop(UniqueFd directory) : directory_(std::move(directory)) {}
    UniqueFd directory_;
};

}  // namespace triton::storage
