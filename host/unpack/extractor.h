#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "host/role/unpack_messages.h"
#include "host/unpack/archive.h"
#include "host/unpack/entry.h"
#include "host/unpack/pace.h"
#include "host/unpack/tree.h"
#include "lib/base/result.h"

namespace triton::unpack {

/// The largest file, with its holes: /var/log/lastlog has hundreds of gigabytes of them when a user has a large number.
/// The bytes that are written are limited by the archive, and by the room on the disk.
inline constexpr std::uint64_t largest_file = std::uint64_t{1} << 44;

/// Applies the entries of one archive to a tree, which may already have lower layers, by the rules of the OCI image
/// format. A directory over a directory keeps its content and gets new attributes. Everything else replaces what was
/// there. A whiteout removes what lower layers have. The author of the archive controls all of it. Source: OCI
/// image-spec, layer.md, "Applying Changesets".
class Extractor {
public:
    /// The root is open for reading, and borrowed; `pace` outlives this.
    Extractor(int root, role::Unpack const& job, Pace& pace);

    /// Applies an entry; the content of a file comes from the archive. Errors: `corrupt`, `refused` (a limit), those of
    /// the file system, "extract <name>".
    Result<> add(Entry const& entry, Archive& archive);
    /// Makes links whose targets came late, and sets the times of directories. Errors: the same.
    Result<> finish();

    [[nodiscard]] std::uint64_t entries() const { return entries_; }
    [[nodiscard]] std::uint64_t skipped_devices() const { return skipped_devices_; }
    [[nodiscard]] std::uint64_t skipped_attributes() const { return skipped_attributes_; }
    /// Whether there were names of whiteouts that were not applied.
    [[nodiscard]] bool has_whiteout_names() const { return has_whiteout_names_; }

private:
    Result<> apply(Entry const& entry, Archive& archive);
    Result<> apply_whiteout(Entry const& entry);
    Result<> clear_lower(std::vector<std::string> const& components, std::size_t count);
    Result<> remove_lower(int parent, std::string const& name, std::string const& path, unsigned most_depth);
    Result<> make_root(Entry const& entry);
    Result<> make_directory(Entry const& entry);
    Result<> make_file(Entry const& entry, Archive& archive);
    Result<> make_symbolic_link(Entry const& entry);
    Result<> make_hard_link(Entry const& entry);
    Result<> make_fifo(Entry const& entry);
    Result<> leave_out(Entry const& entry);
    Result<> make_way(int parent, Entry const& entry);
    Result<bool> link(Entry const& entry);
    Result<> write_content(int file, Entry const& entry, Archive& archive);
    Result<> set_attributes(int file, Entry const& entry);
    Result<> set_link_attributes(int parent, Entry const& entry);
    void remember(Entry const& entry);
    [[nodiscard]] bool is_skipped(std::vector<std::string> const& name) const;
    [[nodiscard]] bool is_ours(std::string const& path) const;

    role::UnpackLimits limits_;
    bool applies_whiteouts_;
    Pace& pace_;
    Tree tree_;
    std::unordered_set<std::size_t> ours_;     // hashes of the paths that this archive has made
    std::unordered_set<std::size_t> skipped_;  // hashes of the paths of devices: links to them are left out, too
    std::vector<Entry> late_links_;
    std::uint64_t entries_ = 0;
    std::uint64_t file_bytes_ = 0;
    std::uint64_t skipped_devices_ = 0;
    std::uint64_t skipped_attributes_ = 0;
    bool has_whiteout_names_ = false;
};

}  // namespace triton::unpack
