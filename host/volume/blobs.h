#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/volume/states.h"

namespace triton::volume {

/// The blobs of content trees as other programs are shown them: those of a content tree that is complete, as the
/// database has them, and those that are on their way, as jobs report them. The root of a content tree is as the tree
/// is. Pure: it is told, and asked what has changed.
class Blobs {
public:
    /// A content tree, as it is shown now. Its root is the blob that its digest names. `name`: what datastores call it;
    /// `is_whole`: the root is all of it, so that its bytes are those of the root.
    void follow(TreeStatus const& status, std::string const& name, bool is_whole);
    /// A blob of a content tree that is being fetched.
    void note(std::string const& content, BlobStatus blob);
    /// All blobs of a content tree that is complete. The order is that of root, documents and layers.
    void set(std::string const& content, std::vector<BlobStatus> blobs);
    /// There is no such content tree any more.
    void forget(std::string const& content);

    /// The blobs of a content tree, root first.
    [[nodiscard]] std::vector<BlobStatus> of(std::string const& content) const;
    /// A blob, whichever content trees need it; nullopt: none does.
    [[nodiscard]] std::optional<BlobStatus> find(std::string const& digest) const;

    /// The digests of the blobs that have changed since the last call, or that nothing needs any more.
    std::set<std::string> take_changed();
    /// The content trees of which another blob, or a blob in another state, has become known since the last call.
    std::set<std::string> take_changed_contents();

private:
    struct Tree {
        std::string root;
        std::map<std::string, BlobStatus> blobs;  // by digest
    };
    void change(std::string const& content, BlobStatus const& blob);
    void remove(std::string const& content, std::string const& digest);

    std::map<std::string, Tree> trees_;
    std::map<std::string, std::set<std::string>> users_;  // content trees, by digest
    std::set<std::string> changed_;
    std::set<std::string> changed_contents_;
};

}  // namespace triton::volume
