#pragma once

#include <string>

namespace triton::content {

/// Room for what makes room: without any, not even the deletion of an image could be noted in the database. It is kept
/// in some files of the content directory, because a disk may lack inodes instead of blocks.

/// Gives it up if the disk of a content directory is nearly full.
void give_reserve(std::string const& content);
/// Takes it, if there is room for much more than that. A file system that cannot promise room has none.
void take_reserve(std::string const& content);

}  // namespace triton::content
