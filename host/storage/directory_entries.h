#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// Opens the directory of that name; empty, with errno set: it cannot be opened, is no directory, or is a symbolic
/// link.
UniqueFd open_directory(int parent, std::string const& name);

/// Reads the names in a directory in large pieces; one buffer can serve any number of directories, one after the other.
class DirectoryReader {
public:
    DirectoryReader() : buffer_(std::size_t{64} << 10) {}

    /// Calls `visit(std::string const& name, unsigned char type)` for each entry but "." and "..". The type is that of
    /// readdir(3), including DT_UNKNOWN. The directory (borrowed) is read from its beginning; one that was removed
    /// since it was opened is empty. Errors: those of
    /// getdents64(2), "read directory", and of `visit`, which returns Result<>.
    template <class Visit>
    Result<> read(int directory, Visit visit) {
        TRY(rewind(directory));
        // Bounded by the directory: the kernel returns each entry that stays there once.
        while (std::size_t const size = TRY(fill(directory))) {
            for (std::size_t at = 0; at < size;) {
                Record const record = record_at(at);
                at += record.size;
                if (is_dots(record.name)) continue;
                name_.assign(record.name);
                TRY(visit(name_, record.type));
            }
        }
        return {};
    }

private:
    struct Record {
        std::size_t size;
        unsigned char type;
        std::string_view name;
    };
    static bool is_dots(std::string_view name) { return name == "." || name == ".."; }
    static Result<> rewind(int directory);
    Result<std::size_t> fill(int directory);
    [[nodiscard]] Record record_at(std::size_t at) const;

    std::vector<char> buffer_;
    std::string name_;
};

}  // namespace triton::storage
