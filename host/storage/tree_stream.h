#pragma once

#include <memory>
#include <optional>
#include <string>

#include "host/storage/names.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

/// One tree as a stream of bytes: docs/host/storage.md has the format.
namespace triton::storage::tree_stream {

/// The head of a stream, before its content.
struct Head {
    SnapshotName snapshot;
    std::optional<SnapshotName> from = {};  ///< the stream has only the changes since that one
};

/// Writes a tree. `base`: the tree of head.from. Errors: those of the system calls; `unavailable`: the reader has gone.
Result<> send(Head const& head, UniqueFd tree, std::optional<UniqueFd> base, int to);

/// Whether two trees have the same content, names, and attributes except the time of the last access. It does not
/// matter which names belong to one file.
Result<bool> is_same(UniqueFd tree, UniqueFd base);

/// A stream that is being read. `from` is borrowed.
class Receiver {
public:
    /// Reads the head. Errors: `corrupt`; those of read(2).
    static Result<Receiver> create(int from);
    Receiver(Receiver&&) noexcept;
    Receiver& operator=(Receiver&&) = delete;
    ~Receiver();

    [[nodiscard]] Head const& head() const;
    /// Makes the content in a directory, which is empty or a copy of head().from. Errors: `corrupt`; those of the
    /// system calls. After an error the directory has something, but not the tree.
    Result<> receive(UniqueFd tree);

private:
    struct State;
    explicit Receiver(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace triton::storage::tree_stream
