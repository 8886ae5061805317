#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::storage {

/// The name of a tree in a pool: "machines/0d3b5bd2", "layers/5f70bf18". It has components of [A-Za-z0-9_.:-] that
/// begin with a letter or a digit, joined by single slashes. The part before the last slash is a group, which the pool
/// makes and removes when needed; a tree is never inside another tree.
class TreeName {
public:
    /// A limit because of ZFS: its names have 255 characters at most, including the dataset before them and a snapshot
    /// after.
    static constexpr std::size_t most_characters = 120;
    static constexpr std::size_t most_components = 4;

    /// Errors: `invalid`, which names the text and what is wrong with it.
    static Result<TreeName> parse(std::string_view text);

    [[nodiscard]] std::string const& text() const { return text_; }
    auto operator<=>(TreeName const&) const = default;

private:
    explicit TreeName(std::string_view text) : text_(text) {}
    std::string text_;
};

/// The name of a snapshot of a tree: one component of the same kind, which may have "%" too. ZFS has no such names.
class SnapshotName {
public:
    static constexpr std::size_t most_characters = 80;

    /// Errors: `invalid`, which names the text and what is wrong with it.
    static Result<SnapshotName> parse(std::string_view text);

    [[nodiscard]] std::string const& text() const { return text_; }
    auto operator<=>(SnapshotName const&) const = default;

private:
    explicit SnapshotName(std::string_view text) : text_(text) {}
    std::string text_;
};

}  // namespace triton::storage
