#include "host/cri/container/user.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "host/cri/wire/messages.h"
#include "lib/base/read_file.h"
#include "lib/files/confined_path.h"
#include "lib/json/text.h"
#include "lib/process/identity.h"

namespace triton::cri {

namespace {

constexpr std::size_t largest_account_file = 10U << 20U;
constexpr std::int64_t highest_id = INT32_MAX;  // above it numbers became root's elsewhere (CVE-2024-40635)

/// A file of the image; empty: it has none.
Result<std::string> read_account_file(std::string const& root, std::string const& path) {
    auto const file = files::open_confined(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!file && (file.error().kind == ErrorKind::not_found || file.error().code == ENOTDIR)) return std::string();
    if (!file) return std::unexpected(file.error());
    struct stat status{};
    bool const is_file = ::fstat(file->get(), &status) == 0 && S_ISREG(status.st_mode);
    if (!is_file) return fail(ErrorKind::invalid, path + " of the image is not a regular file");
    return read_open_file(file->get(), path + " of the image", largest_account_file);
}

std::optional<std::int64_t> parse_id(std::string_view text) {
    std::int64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) return INT64_MAX;
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

Result<std::uint32_t> checked_id(std::int64_t id, std::string_view what) {
    if (id < 0 || id > highest_id)
        return fail(ErrorKind::invalid, std::string(what) + " " + std::to_string(id) + " is not from 0 to 2147483647");
    return static_cast<std::uint32_t>(id);
}

/// The home directory is the sixth of the seven fields of a line.
std::string home_of(std::string_view passwd, std::uint32_t user) {
    while (!passwd.empty()) {
        std::string_view const line = passwd.substr(0, passwd.find('\n'));
        passwd.remove_prefix(std::min(passwd.size(), line.size() + 1));
        std::vector<std::string_view> fields;
        for (std::string_view rest = line; fields.size() < 7;) {
            auto const colon = rest.find(':');
            fields.push_back(rest.substr(0, colon));
            if (colon == std::string_view::npos) break;
            rest.remove_prefix(colon + 1);
        }
        if (fields.size() >= 6 && parse_id(fields[2]) == user && fields[5].starts_with('/'))
            return std::string(fields[5]);
    }
    return "/";
}

struct Found {
    std::uint32_t user = 0;
    std::optional<process::User> entry = {};
    std::optional<std::uint32_t> group = {};
};

Result<Found> find_by_text(process::Accounts const& accounts, std::string_view text) {
    Found found;
    std::string_view const user = text.substr(0, text.find(':'));
    std::string_view const group = text.find(':') == std::string_view::npos ? "" : text.substr(text.find(':') + 1);
    found.entry = accounts.find_user(user);
    if (found.entry) {
        found.user = found.entry->id;
    } else {
        auto const number = parse_id(user);
        if (!number && !user.empty())
            return fail(ErrorKind::invalid, "the image has no user " + json::quoted(user) + " in /etc/passwd");
        found.user = TRY(checked_id(number.value_or(0), "user"));
        found.entry = accounts.find_user(found.user);
    }
    if (group.empty()) return found;
    found.group = accounts.find_group(group);
    if (found.group) return found;
    auto const number = parse_id(group);
    if (!number) return fail(ErrorKind::invalid, "the image has no group " + json::quoted(group) + " in /etc/group");
    found.group = TRY(checked_id(*number, "group"));
    return found;
}

}  // namespace

Result<ContainerUser> find_user(v1::LinuxContainerSecurityContext const& context, std::string const& image_user,
                                std::string const& root) {
    std::string const passwd = TRY(read_account_file(root, "/etc/passwd"));
    process::Accounts const accounts(passwd, TRY(read_account_file(root, "/etc/group")));
    Found found;
    if (!context.run_as_username().empty()) {
        found = TRY(find_by_text(accounts, context.run_as_username()));
    } else if (context.has_run_as_user()) {
        found.user = TRY(checked_id(context.run_as_user().value(), "user"));
        found.entry = accounts.find_user(found.user);
    } else {
        found = TRY(find_by_text(accounts, image_user));
    }
    if (context.has_run_as_group() && !context.has_run_as_user() && context.run_as_username().empty())
        return fail(ErrorKind::invalid, "run_as_group needs a run_as_user or run_as_username");
    if (context.has_run_as_group()) found.group = TRY(checked_id(context.run_as_group().value(), "group"));
    ContainerUser user{.user = found.user};
    user.group = found.group.value_or(found.entry ? found.entry->group : 0);
    user.home = home_of(passwd, found.user);
    user.groups.push_back(user.group);
    for (std::int64_t const group : context.supplemental_groups())
        user.groups.push_back(TRY(checked_id(group, "supplemental group")));
    if (context.supplemental_groups_policy() == v1::Merge && found.entry)
        for (std::uint32_t const group : accounts.groups_of(*found.entry))
            user.groups.push_back(group);
    std::ranges::sort(user.groups);
    auto const [first, last] = std::ranges::unique(user.groups);
    user.groups.erase(first, last);
    return user;
}

}  // namespace triton::cri
