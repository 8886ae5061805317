#pragma once

#include <string>

namespace triton::content {

/// Room for what makes room: without any, not even the deletion of an image could be noted in the database. It is kept
/// in some files of the content directory, because a disk may lack inodes instead of blocks.

/// Gives it up if the disk of a content directory is nearly full. Returns whether there was any. Whoever has it given
/// up calls take_reserve() in the end.
bool give_reserve(std::string const& content);
/// Takes it: 1 MiB in all where 128 MiB are free, less where less is free, but never much of that. A file system that
/// cannot promise room has none.
void take_reserve(std::string const& content);

}  // namespace triton::content
