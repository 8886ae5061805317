#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace triton::volume {

/// Which file system a volume is on. Both are one when the vault is a directory of the pool's own file system.
enum class FileSystem : std::uint8_t { clear, vault };
inline FileSystem file_system_of(bool is_in_vault) { return is_in_vault ? FileSystem::vault : FileSystem::clear; }

/// Promises of space: what will be written, beside what is free now. A promise is made before the work, so that work
/// which runs at the same time cannot be promised the same bytes. It is computed anew from the objects each time, never
/// counted up and down.
class Ledger {
public:
    struct Settings {
        std::uint64_t floor = 64 << 20;  ///< bytes that stay free
        double overcommit = 1.0;         ///< how many times the rest is promised
        bool is_one_file_system = true;  ///< the vault is on the same file system as the rest
    };
    explicit Ledger(Settings settings) : settings_(settings) {}

    void set_one_file_system(bool is_one) { settings_.is_one_file_system = is_one; }
    void set_free(FileSystem file_system, std::uint64_t bytes);
    /// `written`: the part of the promise that is on disk already, and is not free any more.
    void promise(std::string const& key, FileSystem file_system, std::uint64_t bytes, std::uint64_t written);
    void release(std::string const& key);

    /// The bytes that can still be promised; nullopt until the free space is known.
    [[nodiscard]] std::optional<std::uint64_t> available(FileSystem file_system) const;
    /// The promised bytes that are not written yet.
    [[nodiscard]] std::uint64_t outstanding(FileSystem file_system) const;
    [[nodiscard]] bool admits(FileSystem file_system, std::uint64_t bytes) const;

private:
    struct Promise {
        FileSystem file_system;
        std::uint64_t bytes;
        std::uint64_t written;
    };
    [[nodiscard]] FileSystem real(FileSystem file_system) const;

    Settings settings_;
    std::map<FileSystem, std::uint64_t> free_;
    std::map<std::string, Promise> promises_;
};

}  // namespace triton::volume
