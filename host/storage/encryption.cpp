#include "host/storage/encryption.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fscrypt.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/storage/zfs_command.h"
#include "lib/base/read_file.h"

namespace triton::storage {

namespace {

using State = Encryption::State;

constexpr std::size_t longest_attribute = 4096;
/// Devices lie over devices; whoever makes more layers than this is not believed.
constexpr int most_layers = 16;
constexpr std::string_view crypt_prefix = "CRYPT-";

bool is_missing(int error) {
    return error == ENOTTY || error == EOPNOTSUPP || error == ENODATA || error == EINVAL || error == ENOSYS;
}

/// The policy of the directory itself, which everything below inherits. nullopt: it has none.
Result<std::optional<Encryption>> look_at_fscrypt(int directory) {
    fscrypt_get_policy_ex_arg policy{};
    policy.policy_size = sizeof policy.policy;
    if (::ioctl(directory, FS_IOC_GET_ENCRYPTION_POLICY_EX, &policy) != 0) {
        if (is_missing(errno)) return std::nullopt;
        return fail(errno, "look at the encryption of a directory");
    }
    if (policy.policy.version != FSCRYPT_POLICY_V2)
        return Encryption{State::none, "its fscrypt policy is of an old version"};
    fscrypt_get_key_status_arg key{};
    key.key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
    std::memcpy(key.key_spec.u.identifier, policy.policy.v2.master_key_identifier, FSCRYPT_KEY_IDENTIFIER_SIZE);
    if (::ioctl(directory, FS_IOC_GET_ENCRYPTION_KEY_STATUS, &key) != 0)
        return fail(errno, "look at the key of a directory");
    if (key.status == FSCRYPT_KEY_STATUS_PRESENT) return Encryption{State::unlocked, ""};
    return Encryption{State::locked, "the key of its fscrypt policy is not there"};
}

std::string read_attribute(std::string const& path) {
    auto text = read_file(path, longest_attribute);
    return text ? *std::move(text) : std::string();
}

/// Whether everything that is written to a block device goes through dm-crypt. `device`: its directory in sysfs.
bool is_encrypted_device(std::string const& device, int layers) {
    if (read_attribute(device + "/dm/uuid").starts_with(crypt_prefix)) return true;
    if (layers == 0) return false;
    std::error_code error;
    std::filesystem::directory_iterator below(device + "/slaves", error);
    if (error) return false;
    bool has_some = false;
    for (auto const& entry : below) {
        has_some = true;
        if (!is_encrypted_device(entry.path().string(), layers - 1)) return false;
    }
    return has_some;
}

/// The devices of a btrfs, by their directories in sysfs; empty: it is none, or none can be seen.
std::vector<std::string> btrfs_devices(int directory, std::string const& sysfs) {
    btrfs_ioctl_fs_info_args facts{};
    if (::ioctl(directory, BTRFS_IOC_FS_INFO, &facts) != 0) return {};
    std::string uuid;
    for (std::size_t i = 0; i < sizeof facts.fsid; ++i) {
        static constexpr char digits[] = "0123456789abcdef";
        if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
        uuid += digits[facts.fsid[i] >> 4];
        uuid += digits[facts.fsid[i] & 15];
    }
    std::vector<std::string> devices;
    std::error_code error;
    for (auto const& entry : std::filesystem::directory_iterator(sysfs + "/fs/btrfs/" + uuid + "/devices", error))
        devices.push_back(entry.path().string());
    // One that is missing cannot be looked at.
    return devices.size() == facts.num_devices ? devices : std::vector<std::string>();
}

Result<Encryption> look_at_devices(int directory, std::string const& sysfs) {
    struct stat status{};
    if (::fstat(directory, &status) != 0) return fail(errno, "look at a directory");
    std::vector<std::string> devices = btrfs_devices(directory, sysfs);
    if (devices.empty() && ::major(status.st_dev) != 0)
        devices.push_back(sysfs + "/dev/block/" + std::to_string(::major(status.st_dev)) + ":" +
                          std::to_string(::minor(status.st_dev)));
    bool is_encrypted = !devices.empty();
    for (std::string const& device : devices)
        is_encrypted = is_encrypted && is_encrypted_device(device, most_layers);
    if (is_encrypted) return Encryption{State::unlocked, ""};
    return Encryption{State::none, "it is in the clear: it has no fscrypt policy, and no dm-crypt is below it"};
}

}  // namespace

Result<Encryption> look_at_encryption(int directory, std::string const& sysfs) {
    if (auto const fscrypt = TRY(look_at_fscrypt(directory))) return *fscrypt;
    return look_at_devices(directory, sysfs);
}

Result<Encryption> look_at_encryption_of_dataset(std::string const& dataset) {
    auto const zfs = TRY(ZfsCommand::find(std::chrono::seconds(30)));
    std::string const output =
        TRY(zfs.run({.attempted = "look at the encryption of " + dataset,
                     .arguments = {"get", "-H", "-o", "value", "encryption,keystatus", dataset}}));
    auto const lines = zfs_fields(output);
    bool const is_answer = lines.size() == 2 && lines[0].size() == 1 && lines[1].size() == 1;
    if (!is_answer) return fail(ErrorKind::corrupt, "zfs get has answered something else than was asked for");
    if (lines[0][0] == "off" || lines[0][0] == "-") return Encryption{State::none, "its dataset is not encrypted"};
    if (lines[1][0] == "available") return Encryption{State::unlocked, ""};
    return Encryption{State::locked, "the key of its dataset is not loaded"};
}

}  // namespace triton::storage
