#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/layers.h"
#include "lib/base/result.h"

namespace triton::launcher {

/// A configuration's document, as its files are now.
struct Document {
    Result<std::vector<config::Layer>> layers;
    /// Paths and patterns beside the document's own, whose change may change what it says. Known with an error, too.
    std::vector<std::string> watched;
    bool is_cut_short = false;  ///< a file was not read, because `may_open` said so
};

/// Reads the document at a path with what it includes, in the order of its layers. Names that begin with a dot are
/// matched only by patterns that do; a pattern that matches nothing is nothing.
/// Errors: those of read_file(), "include[0]: open /etc/triton/web.json: No such file or directory", with one detail
/// for each further file that cannot be read; `invalid` when there are more than config::most_layers files, or more
/// than config::most_layer_bytes in all.
/// `may_open`: asked before each file is opened, and each directory that a pattern is for; empty: all may be.
Document read_document(std::string const& path, std::function<bool(std::string const& path)> const& may_open = {});

}  // namespace triton::launcher
