#include "host/volume/blobs.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace triton::volume {

namespace {

/// Root, then documents, then layers.
int rank_of(BlobStatus const& blob, std::string const& root) {
    if (blob.digest == root) return 0;
    bool const is_layer = blob.media_type.contains("layer") || blob.media_type.contains("tar");
    return is_layer ? 2 : 1;
}

/// What of a content tree is a state of its blobs.
State state_of_blob(State state) { return state > State::loaded ? State::loaded : state; }

}  // namespace

void Blobs::change(std::string const& content, BlobStatus const& blob) {
    auto const [at, is_new] = trees_[content].blobs.try_emplace(blob.digest, blob);
    if (is_new) users_[blob.digest].insert(content);
    if (!is_new && at->second == blob) return;
    if (is_new || at->second.state != blob.state) changed_contents_.insert(content);
    at->second = blob;
    changed_.insert(blob.digest);
}

void Blobs::remove(std::string const& content, std::string const& digest) {
    trees_[content].blobs.erase(digest);
    auto const users = users_.find(digest);
    if (users == users_.end()) return;
    users->second.erase(content);
    if (users->second.empty()) users_.erase(users);
    changed_.insert(digest);
    changed_contents_.insert(content);
}

void Blobs::follow(TreeStatus const& status, std::string const& name, bool is_whole) {
    Tree& tree = trees_[status.id];
    if (tree.root != status.digest) {
        // Its blobs are those of what it was before.
        for (auto const& [digest, blob] : std::map(tree.blobs))
            remove(status.id, digest);
        tree.root = status.digest;
    }
    if (status.digest.empty()) return;
    bool const is_complete = status.state >= State::loaded;
    auto const known = tree.blobs.find(status.digest);
    BlobStatus root = known == tree.blobs.end() ? BlobStatus{.digest = status.digest} : known->second;
    if (!name.empty()) root.name = name;
    root.state = state_of_blob(status.state);
    root.error = status.error;
    if (is_whole) {
        root.bytes = status.bytes;
        root.total_bytes = status.total_bytes;
    }
    change(status.id, root);
    if (!is_complete) return;
    for (auto const& [digest, blob] : std::map(tree.blobs)) {
        if (digest == tree.root) continue;
        BlobStatus done = blob;
        done.state = State::loaded;
        done.bytes = std::max(done.bytes, done.total_bytes);
        change(status.id, done);
    }
}

void Blobs::note(std::string const& content, BlobStatus blob) {
    auto const tree = trees_.find(content);
    if (tree == trees_.end()) return;  // it was given up meanwhile
    if (blob.digest == tree->second.root) {
        auto const root = tree->second.blobs.find(blob.digest);
        if (root == tree->second.blobs.end()) return;
        blob.name = root->second.name;
        blob.state = root->second.state;
        blob.error = root->second.error;
    }
    change(content, blob);
}

void Blobs::set(std::string const& content, std::vector<BlobStatus> blobs) {
    std::set<std::string> listed;
    for (BlobStatus const& blob : blobs)
        listed.insert(blob.digest);
    auto const tree = trees_.find(content);
    if (tree == trees_.end()) return;
    for (auto const& [digest, blob] : std::map(tree->second.blobs))
        if (!listed.contains(digest) && digest != tree->second.root) remove(content, digest);
    for (BlobStatus& blob : blobs)
        note(content, std::move(blob));
}

void Blobs::forget(std::string const& content) {
    auto const tree = trees_.find(content);
    if (tree == trees_.end()) return;
    for (auto const& [digest, blob] : std::map(tree->second.blobs))
        remove(content, digest);
    trees_.erase(content);
}

std::vector<BlobStatus> Blobs::of(std::string const& content) const {
    auto const tree = trees_.find(content);
    if (tree == trees_.end()) return {};
    std::vector<BlobStatus> all;
    for (auto const& [digest, blob] : tree->second.blobs)
        all.push_back(find(digest).value_or(blob));
    std::ranges::stable_sort(all, {}, [&](BlobStatus const& blob) { return rank_of(blob, tree->second.root); });
    return all;
}

std::optional<BlobStatus> Blobs::find(std::string const& digest) const {
    auto const users = users_.find(digest);
    if (users == users_.end()) return std::nullopt;
    std::optional<BlobStatus> found;
    for (std::string const& content : users->second) {
        BlobStatus const& blob = trees_.at(content).blobs.at(digest);
        // What one content tree has, all have.
        if (!found || blob.state > found->state) found = blob;
    }
    found->references = users->second.size();
    return found;
}

std::set<std::string> Blobs::take_changed() { return std::exchange(changed_, {}); }
std::set<std::string> Blobs::take_changed_contents() { return std::exchange(changed_contents_, {}); }

}  // namespace triton::volume
