#include "sidecar/agent/hash_cache.h"

namespace triton::agent {

namespace {

constexpr std::int64_t second = 1'000'000'000;

std::int64_t nanoseconds_of(timespec const& time) { return time.tv_sec * second + time.tv_nsec; }

}  // namespace

FileKey FileKey::of(struct stat const& status) {
    return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), nanoseconds_of(status.st_mtim),
            nanoseconds_of(status.st_ctim)};
}

std::size_t HashCache::Hasher::operator()(FileKey const& key) const noexcept {
    std::uint64_t mixed = key.inode;
    for (std::uint64_t const part : {key.device, key.size, static_cast<std::uint64_t>(key.changed)})
        mixed = (mixed ^ part) * 0x9e3779b97f4a7c15U;
    return mixed ^ (mixed >> 32);
}

std::optional<std::string> HashCache::find(FileKey const& key) {
    auto const found = index_.find(key);
    if (found == index_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->hash;
}

void HashCache::insert(FileKey const& key, std::string hash) {
    if (find(key) || capacity_ == 0) return;
    if (entries_.size() == capacity_) {
        index_.erase(entries_.back().key);
        entries_.pop_back();
    }
    entries_.push_front({key, std::move(hash)});
    index_.emplace(key, entries_.begin());
}

bool HashCache::is_settled(FileKey const& key, std::int64_t begun) { return key.changed + second < begun; }

}  // namespace triton::agent
