#include "lib/process/identity.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <span>

#include <unistd.h>

#include "lib/base/nearest.h"
#include "lib/base/read_file.h"
#include "lib/json/text.h"
#include "lib/process/raw_syscall.h"

namespace triton::process {

namespace {

using json::Problems;
using json::Where;

constexpr std::size_t largest_database = 16 << 20;

std::optional<std::uint32_t> parse_id(std::string_view text) {
    std::uint32_t id = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    // The largest number is (uid_t)-1, which setresuid(2) takes for "unchanged".
    if (error != std::errc{} || end != text.data() + text.size() || id == UINT32_MAX) return std::nullopt;
    return id;
}

/// Calls `use` with the first fields of each line until it returns true.
template <std::size_t count, class Use>
void for_each_line(std::string_view text, Use use) {
    while (!text.empty()) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        std::array<std::string_view, count> fields;
        std::size_t found = 0;
        while (found < count) {
            std::size_t const colon = line.find(':');
            fields[found++] = line.substr(0, colon);
            if (colon == std::string_view::npos) break;
            line.remove_prefix(colon + 1);
        }
        bool const is_entry = found == count && !fields[0].empty() && fields[0][0] != '#';
        if (is_entry && use(fields)) return;
    }
}

template <class Match>
std::optional<User> find_in_passwd(std::string_view passwd, Match matches) {
    std::optional<User> user;
    for_each_line<4>(passwd, [&](auto const& fields) {
        auto const id = parse_id(fields[2]);
        auto const group = parse_id(fields[3]);
        if (id && group && matches(fields[0], *id)) user = User{std::string(fields[0]), *id, *group};
        return user.has_value();
    });
    return user;
}

void sort_once(std::vector<std::uint32_t>& ids) {
    std::ranges::sort(ids);
    auto const rest = std::ranges::unique(ids);
    ids.erase(rest.begin(), rest.end());
}

}  // namespace

Result<Accounts> Accounts::read(AccountFiles const& files) {
    auto const content = [](std::string const& path) -> Result<std::string> {
        auto text = read_file(path, largest_database);
        if (!text && text.error().kind == ErrorKind::not_found) return std::string();
        return text;
    };
    std::string passwd = TRY(content(files.passwd));
    return Accounts(std::move(passwd), TRY(content(files.group)));
}

std::optional<User> Accounts::find_user(std::string_view name) const {
    return find_in_passwd(passwd_, [name](std::string_view other, std::uint32_t) { return other == name; });
}

std::optional<User> Accounts::find_user(std::uint32_t id) const {
    return find_in_passwd(passwd_, [id](std::string_view, std::uint32_t other) { return other == id; });
}

std::optional<std::uint32_t> Accounts::find_group(std::string_view name) const {
    std::optional<std::uint32_t> group;
    for_each_line<3>(group_, [&](auto const& fields) {
        if (fields[0] == name) group = parse_id(fields[2]);
        return group.has_value();
    });
    return group;
}

std::vector<std::uint32_t> Accounts::groups_of(User const& user) const {
    std::vector<std::uint32_t> groups{user.group};
    for_each_line<4>(group_, [&](auto const& fields) {
        std::string_view members = fields[3];
        for (bool is_last = false; !is_last;) {
            std::size_t const comma = members.find(',');
            is_last = comma == std::string_view::npos;
            if (members.substr(0, comma) == user.name) {
                if (auto const id = parse_id(fields[2])) groups.push_back(*id);
                break;
            }
            if (!is_last) members.remove_prefix(comma + 1);
        }
        return false;
    });
    sort_once(groups);
    return groups;
}

namespace {

/// Looks up the users and groups that a program names, and collects those that do not exist.
class Resolver {
public:
    Resolver(Accounts const& accounts, AccountFiles const& files, Where const& at)
        : accounts_(accounts), files_(files), at_(at) {}

    std::optional<User> user(IdOrName const& wanted) {
        if (auto const* id = std::get_if<std::uint32_t>(&wanted)) {
            auto known = accounts_.find_user(*id);
            is_named_ = false;
            has_group_ = known.has_value();
            return known ? known : User{{}, *id, 0};
        }
        std::string const& name = std::get<std::string>(wanted);
        auto user = accounts_.find_user(name);
        is_named_ = has_group_ = true;
        if (!user) add(Where{&at_, std::string_view("user")}, "no user " + json::quoted(name) + " in " + files_.passwd);
        return user;
    }

    std::optional<std::uint32_t> group(IdOrName const& wanted, Where const& at) {
        if (auto const* id = std::get_if<std::uint32_t>(&wanted)) return *id;
        std::string const& name = std::get<std::string>(wanted);
        auto const group = accounts_.find_group(name);
        if (!group) add(at, "no group " + json::quoted(name) + " in " + files_.group);
        return group;
    }

    Identity identity(Settings const& settings) {
        Identity identity;
        std::optional<User> user;
        if (settings.user) user = this->user(*settings.user);
        if (user) identity.user = user->id;
        if (settings.group) {
            identity.group = group(*settings.group, Where{&at_, std::string_view("group")});
        } else if (user && !has_group_) {
            add(Where{&at_, std::string_view("group")},
                "is needed, because user " + std::to_string(user->id) + " is not in " + files_.passwd);
        } else if (user) {
            identity.group = user->group;
        }
        if (settings.supplementary_groups) {
            identity.supplementary_groups = groups(*settings.supplementary_groups);
        } else if (user && is_named_) {
            identity.supplementary_groups = accounts_.groups_of(*user);
        } else if (settings.user || settings.group) {
            identity.supplementary_groups.emplace();
        }
        return identity;
    }

    Problems take() { return std::move(problems_); }

private:
    std::vector<std::uint32_t> groups(std::vector<IdOrName> const& wanted) {
        std::vector<std::uint32_t> ids;
        Where const list{&at_, std::string_view("supplementaryGroups")};
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            if (auto const id = group(wanted[i], Where{&list, i})) ids.push_back(*id);
        }
        sort_once(ids);
        return ids;
    }

    void add(Where const& at, std::string reason) { problems_.push_back({at.text(), std::move(reason)}); }

    Accounts const& accounts_;
    AccountFiles const& files_;
    Where const& at_;
    Problems problems_;
    bool is_named_ = false;
    bool has_group_ = false;
};

std::vector<std::uint32_t> own_groups() {
    int const count = ::getgroups(0, nullptr);
    std::vector<std::uint32_t> groups(static_cast<std::size_t>(std::max(count, 0)));
    if (count > 0) groups.resize(static_cast<std::size_t>(std::max(::getgroups(count, groups.data()), 0)));
    sort_once(groups);
    return groups;
}

void leave_out_what_is_so(Identity& identity) {
    uid_t ids[3];
    if (::getresuid(&ids[0], &ids[1], &ids[2]) == 0 && identity.user == ids[0] && ids[0] == ids[1] && ids[1] == ids[2])
        identity.user.reset();
    if (::getresgid(&ids[0], &ids[1], &ids[2]) == 0 && identity.group == ids[0] && ids[0] == ids[1] && ids[1] == ids[2])
        identity.group.reset();
    if (identity.supplementary_groups == own_groups()) identity.supplementary_groups.reset();
}

}  // namespace

std::expected<Identity, Problems> resolve_identity(Settings const& settings, Where const& at,
                                                   AccountFiles const& files) {
    if (!settings.user && !settings.group && !settings.supplementary_groups) return Identity{};
    auto const accounts = Accounts::read(files);
    if (!accounts) return std::unexpected(Problems{{at.text(), accounts.error().text()}});
    Resolver resolver(*accounts, files, at);
    Identity identity = resolver.identity(settings);
    if (Problems problems = resolver.take(); !problems.empty()) return std::unexpected(std::move(problems));
    leave_out_what_is_so(identity);
    return identity;
}

bool keep_own_groups(Settings const& settings, Identity& identity) {
    if (settings.supplementary_groups || identity.user || identity.group || !identity.supplementary_groups)
        return false;
    std::vector<gid_t> own(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
    if (!own.empty() && ::getgroups(static_cast<int>(own.size()), own.data()) < 0) return false;
    // Only the kernel knows all of its rules, and the groups that we have change nothing. Without libc, which would ask
    // other threads for the same.
    if (raw::call(SYS_setgroups, static_cast<long>(own.size()), raw::address(own.data())) >= 0) return false;
    identity.supplementary_groups.reset();
    return true;
}

}  // namespace triton::process
