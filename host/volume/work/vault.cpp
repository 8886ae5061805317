#include "host/volume/work/vault.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "host/storage/encryption.h"

namespace triton::volume {

namespace {

using EncryptionState = storage::Encryption::State;

Result<storage::Encryption> look_at_encryption(storage::Settings const& vault) {
    // The directory is what is written to, also where a dataset is named: without its mount it is another one.
    UniqueFd const directory{::open(vault.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!directory) return fail(errno, "open directory " + vault.path);
    if (!vault.dataset.empty()) return storage::look_at_encryption_of_dataset(vault.dataset);
    return storage::look_at_encryption(directory.get());
}

}  // namespace

VaultState look_at_vault(image::Site const& site) {
    if (!site.vault)
        return {false, "the volume must be encrypted, and this host has no vault (\"volumes\" in triton.json)"};
    std::string const name = "the vault " + site.vault->path;
    auto const encryption = look_at_encryption(*site.vault);
    if (!encryption) return {false, name + " is not there: " + encryption.error().text()};
    switch (encryption->state) {
        case EncryptionState::none: return {false, name + " is not encrypted: " + encryption->reason};
        case EncryptionState::locked: return {false, name + " is locked: " + encryption->reason};
        case EncryptionState::unlocked: return {true, ""};
    }
    std::unreachable();
}

Result<std::unique_ptr<storage::Pool>> open_vault(image::Site const& site) {
    VaultState const state = look_at_vault(site);
    if (!state.is_unlocked) return fail(ErrorKind::unavailable, state.reason);
    return storage::open_pool(*site.vault);
}

Result<> prove_encrypted(storage::Pool const& pool, storage::TreeName const& tree, UniqueFd const& directory) {
    std::string const dataset = pool.dataset(tree);
    storage::Encryption const encryption = dataset.empty() ? TRY(storage::look_at_encryption(directory.get()))
                                                           : TRY(storage::look_at_encryption_of_dataset(dataset));
    if (encryption.state == EncryptionState::unlocked) return {};
    return fail(ErrorKind::unavailable, "make " + tree.text() + " in the vault", encryption.reason);
}

}  // namespace triton::volume
