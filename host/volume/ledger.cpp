#include "host/volume/ledger.h"

namespace triton::volume {

FileSystem Ledger::real(FileSystem file_system) const {
    return settings_.is_one_file_system ? FileSystem::clear : file_system;
}

void Ledger::set_free(FileSystem file_system, std::uint64_t bytes) { free_[file_system] = bytes; }

void Ledger::promise(std::string const& key, FileSystem file_system, std::uint64_t bytes, std::uint64_t written) {
    promises_.insert_or_assign(key, Promise{file_system, bytes, written});
}

void Ledger::release(std::string const& key) { promises_.erase(key); }

std::uint64_t Ledger::outstanding(FileSystem file_system) const {
    std::uint64_t sum = 0;
    for (auto const& [key, promise] : promises_) {
        if (real(promise.file_system) == real(file_system) && promise.bytes > promise.written)
            sum += promise.bytes - promise.written;
    }
    return sum;
}

std::optional<std::uint64_t> Ledger::available(FileSystem file_system) const {
    auto const found = free_.find(real(file_system));
    if (found == free_.end()) return std::nullopt;
    if (found->second <= settings_.floor) return 0;
    auto const all =
        static_cast<std::uint64_t>(static_cast<double>(found->second - settings_.floor) * settings_.overcommit);
    std::uint64_t const taken = outstanding(file_system);
    return all > taken ? all - taken : 0;
}

bool Ledger::admits(FileSystem file_system, std::uint64_t bytes) const {
    auto const left = available(file_system);
    return left && bytes <= *left;
}

}  // namespace triton::volume
