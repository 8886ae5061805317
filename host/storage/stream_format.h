#pragma once

#include <cstddef>
#include <string_view>

/// The bytes of a tree's stream: docs/host/storage.md describes them. Numbers are little-endian; a text is its length
/// (u32) followed by its bytes.
namespace triton::storage::tree_stream {

constexpr std::string_view magic = "triton-tree 1\n";
constexpr std::size_t longest_record = 1U << 20U;
constexpr std::size_t longest_content = 256U << 10U;  // in one record; this much is read from a file at once
constexpr std::size_t longest_name = 255;
constexpr std::size_t longest_target = 4096;
constexpr std::size_t longest_value = 64U << 10U;  // of an extended attribute: XATTR_SIZE_MAX
constexpr std::size_t most_levels = 1U << 16U;

/// The type of a record; its letter is on the wire.
enum class Record : char {
    head = 'H',       ///< snapshot, from (empty: the whole tree)
    remove = 'R',     ///< name
    directory = 'D',  ///< name; enters it; an existing one stays
    up = 'U',         ///< attributes of the directory; leaves it, in the end the root
    file = 'F',       ///< name, link number (0: it has no other name), size
    content = 'C',    ///< offset, bytes
    symlink = 'S',    ///< name, link number, target
    node = 'N',       ///< name, link number, type, device
    link = 'L',       ///< name, link number
    attribute = 'X',  ///< name, value: for the entry that was begun last and is not finished
    finish = 'T',     ///< attributes of the file, symbolic link or node
    end = 'Z',        ///< SHA-256 in hexadecimal of all bytes before this record
};

}  // namespace triton::storage::tree_stream
