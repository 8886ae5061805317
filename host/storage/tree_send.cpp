#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/attributes.h"
#include "host/storage/data_copy.h"
#include "host/storage/directory_entries.h"
#include "host/storage/directory_stack.h"
#include "host/storage/stream_writer.h"
#include "host/storage/tree_stream.h"

namespace triton::storage::tree_stream {

namespace {

using Attributes = std::map<std::string, std::string>;

Result<Attributes> read_attributes(ExtendedAttributes& reader, Place const& place) {
    Attributes all;
    TRY(reader.read(
        place,
        [&](char const* name, std::string_view value) -> Result<> {
            all.emplace(name, value);
            return {};
        }));
    return all;
}

bool same_time(timespec const& a, timespec const& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

bool same_attributes(struct stat const& a, struct stat const& b) {
    return a.st_mode == b.st_mode && a.st_uid == b.st_uid && a.st_gid == b.st_gid && same_time(a.st_mtim, b.st_mtim);
}

UniqueFd open_file(int directory, std::string const& name) {
    return UniqueFd{::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
}

Result<std::string> read_target(int directory, std::string const& name) {
    std::string target(PATH_MAX + 1, '\0');
    ssize_t const size = ::readlinkat(directory, name.c_str(), target.data(), target.size());
    if (size < 0) return fail(errno, "read the symbolic link");
    target.resize(static_cast<std::size_t>(size));
    return target;
}

Result<bool> same_content(int a, int b) {
    std::string ours(longest_content, '\0');
    std::string theirs(longest_content, '\0');
    for (off_t at = 0;;) {
        ssize_t const size = ::pread(a, ours.data(), ours.size(), at);
        ssize_t const other = ::pread(b, theirs.data(), theirs.size(), at);
        if (size < 0 || other < 0) return fail(errno, "read");
        if (size != other || std::string_view(ours).substr(0, size) != std::string_view(theirs).substr(0, other))
            return false;
        if (size == 0) return true;
        at += size;
    }
}

/// Goes through a tree, side by side with an older state of it, and writes the differences.
class Sending {
public:
    /// `compares_only`: nothing is written, and files with several names are compared like any others.
    Sending(Writer& writer, DirectoryStack tree, std::optional<DirectoryStack> base, bool compares_only)
        : writer_(writer), tree_(std::move(tree)), base_(std::move(base)), compares_only_(compares_only) {}

    Result<> run() {
        TRY(begin_level({}, base_.has_value()));
        while (true) {
            if (has_changed_ && compares_only_) return {};
            if (!levels_.back().directories.empty()) {
                TRY(enter());
                continue;
            }
            TRY(end_level());
            if (levels_.empty()) return {};
        }
    }

    [[nodiscard]] bool has_changed() const { return has_changed_; }

private:
    struct Level {
        std::vector<std::string> directories;  // those that still follow
        std::set<std::string> base_names;      // of the older state, and not yet seen in the newer one
        bool has_base;
    };

    Result<> begin_level(std::string const& name, bool has_base) {
        Level& level = levels_.emplace_back();
        level.has_base = has_base;
        if (!name.empty()) {
            writer_.begin(Record::directory);
            writer_.text(name);
            TRY(writer_.end());
        }
        if (has_base)
            TRY(reader_.read(
                base_->fd(),
                [&](std::string const& entry, unsigned char /*type*/) -> Result<> {
                    level.base_names.insert(entry);
                    return {};
                }));
        TRY(reader_.read(
            tree_.fd(),
            [&](std::string const& entry, unsigned char type) -> Result<> {
                auto sent = type == DT_DIR ? note_directory(level, entry) : send_entry(level, entry);
                if (!sent && sent.error().attempted != Writer::attempted)
                    sent.error().attempted = "send " + tree_.shown(entry) +
                                             (sent.error().attempted.empty() ? "" : ": " + sent.error().attempted);
                return sent;
            }));
        std::set<std::string, std::less<>> const directories(level.directories.begin(), level.directories.end());
        for (std::string const& gone : level.base_names)
            if (!directories.contains(gone)) TRY(send_removal(gone));
        return {};
    }

    static Result<> note_directory(Level& level, std::string const& name) {
        level.directories.push_back(name);  // its base name stays, since enter() looks at it
        return {};
    }

    Result<> enter() {
        std::string const name = std::move(levels_.back().directories.back());
        levels_.back().directories.pop_back();
        bool has_base = levels_.back().has_base && levels_.back().base_names.contains(name);
        if (has_base) {
            auto const entered = base_->enter(name);
            if (!entered) {
                TRY(send_removal(name));  // the old one was not a directory
                has_base = false;
            }
        }
        has_changed_ = has_changed_ || (levels_.back().has_base && !has_base);
        TRY(tree_.enter(name));
        return begin_level(name, has_base);
    }

    Result<> end_level() {
        struct stat status;
        if (::fstat(tree_.fd(), &status) != 0) return fail(errno, "send " + tree_.shown());
        Place const place{tree_.fd(), ".", tree_.fd()};
        Attributes const attributes = TRY(read_attributes(attributes_, place));
        if (levels_.back().has_base) TRY(compare_directory(status, attributes));
        TRY(send_attributes(attributes));
        writer_.begin(Record::up);
        writer_.attributes(status);
        TRY(writer_.end());
        bool const has_base = levels_.back().has_base;
        levels_.pop_back();
        if (levels_.empty()) return {};
        if (has_base) TRY(base_->leave());
        return tree_.leave();
    }

    Result<> compare_directory(struct stat const& status, Attributes const& attributes) {
        struct stat before;
        if (::fstat(base_->fd(), &before) != 0) return fail(errno, "send " + tree_.shown());
        has_changed_ = has_changed_ || !same_attributes(status, before) ||
                       attributes != TRY(read_attributes(attributes_, {base_->fd(), ".", base_->fd()}));
        return {};
    }

    Result<> send_removal(std::string const& name) {
        has_changed_ = true;
        writer_.begin(Record::remove);
        writer_.text(name);
        return writer_.end();
    }

    Result<> send_entry(Level& level, std::string const& name) {
        struct stat status;
        if (::fstatat(tree_.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return fail(errno, "");
        if (S_ISDIR(status.st_mode)) return note_directory(level, name);
        if (level.has_base && level.base_names.erase(name) > 0) {
            bool const may_be_same = status.st_nlink < 2 || compares_only_;
            if (may_be_same && TRY(is_same(name, status))) return {};
            TRY(send_removal(name));
        }
        has_changed_ = true;
        return compares_only_ ? Result<>{} : send_new(name, status);
    }

    Result<bool> is_same(std::string const& name, struct stat const& status) {
        struct stat before;
        if (::fstatat(base_->fd(), name.c_str(), &before, AT_SYMLINK_NOFOLLOW) != 0) return fail(errno, "");
        if (!same_attributes(status, before) || status.st_size != before.st_size || status.st_rdev != before.st_rdev)
            return false;
        // A btrfs snapshot has the files' own numbers, and the kernel sets this time at every change.
        if (status.st_ino == before.st_ino && same_time(status.st_ctim, before.st_ctim)) return true;
        if (S_ISLNK(status.st_mode)) {
            std::string const target = TRY(read_target(tree_.fd(), name));
            if (target != TRY(read_target(base_->fd(), name))) return false;
        }
        UniqueFd now;
        UniqueFd then;
        if (S_ISREG(status.st_mode)) {
            now = open_file(tree_.fd(), name);
            then = open_file(base_->fd(), name);
            if (!now || !then) return fail(errno, "");
        }
        Attributes const attributes = TRY(read_attributes(attributes_, {tree_.fd(), name.c_str(), now.get()}));
        if (attributes != TRY(read_attributes(attributes_, {base_->fd(), name.c_str(), then.get()}))) return false;
        return !now || TRY(same_content(now.get(), then.get()));
    }

    Result<> send_new(std::string const& name, struct stat const& status) {
        auto const [number, is_first] = link_number(status);
        if (!is_first) {
            writer_.begin(Record::link);
            writer_.text(name);
            writer_.number(number);
            return writer_.end();
        }
        UniqueFd file;
        if (S_ISREG(status.st_mode)) {
            file = open_file(tree_.fd(), name);
            if (!file) return fail(errno, "");
            TRY(send_file(name, number, status, file.get()));
        } else if (S_ISLNK(status.st_mode)) {
            std::string const target = TRY(read_target(tree_.fd(), name));
            writer_.begin(Record::symlink);
            writer_.text(name);
            writer_.number(number);
            writer_.text(target);
            TRY(writer_.end());
        } else {
            writer_.begin(Record::node);
            writer_.text(name);
            writer_.number(number);
            writer_.number(status.st_mode & S_IFMT);
            writer_.number(status.st_rdev);
            TRY(writer_.end());
        }
        Attributes const attributes = TRY(read_attributes(attributes_, {tree_.fd(), name.c_str(), file.get()}));
        TRY(send_attributes(attributes));
        writer_.begin(Record::finish);
        writer_.attributes(status);
        return writer_.end();
    }

    /// The number of a file with several names, and whether this is its first one; 0 and true for other files.
    std::pair<std::uint64_t, bool> link_number(struct stat const& status) {
        if (status.st_nlink < 2) return {0, true};
        auto const [found, is_new] = links_.emplace(status.st_ino, links_.size() + 1);
        return {found->second, is_new};
    }

    Result<> send_file(std::string const& name, std::uint64_t number, struct stat const& status, int file) {
        writer_.begin(Record::file);
        writer_.text(name);
        writer_.number(number);
        writer_.number(static_cast<std::uint64_t>(status.st_size));
        TRY(writer_.end());
        for (off_t at = 0; at < status.st_size;) {
            Extent const extent = next_extent(file, status, at);
            TRY(send_extent(file, extent));
            at = extent.end;
        }
        return {};
    }

    Result<> send_extent(int file, Extent extent) {
        content_.resize(longest_content);
        for (off_t at = extent.begin; at < extent.end;) {
            auto const wanted = static_cast<std::size_t>(std::min<off_t>(extent.end - at, longest_content));
            ssize_t const size = ::pread(file, content_.data(), wanted, at);
            if (size < 0) return fail(errno, "");
            if (size == 0) return {};
            writer_.begin(Record::content);
            writer_.number(static_cast<std::uint64_t>(at));
            writer_.text(std::string_view(content_).substr(0, static_cast<std::size_t>(size)));
            TRY(writer_.end());
            at += size;
        }
        return {};
    }

    Result<> send_attributes(Attributes const& attributes) {
        for (auto const& [name, value] : attributes) {
            writer_.begin(Record::attribute);
            writer_.text(name);
            writer_.text(value);
            TRY(writer_.end());
        }
        return {};
    }

    Writer& writer_;
    DirectoryStack tree_;
    std::optional<DirectoryStack> base_;
    bool compares_only_;
    bool has_changed_ = false;
    DirectoryReader reader_;
    ExtendedAttributes attributes_;
    std::vector<Level> levels_;
    std::unordered_map<std::uint64_t, std::uint64_t> links_;  // inode -> link number
    std::string content_;
};

}  // namespace

Result<> send(Head const& head, UniqueFd tree, std::optional<UniqueFd> base, int to) {
    auto stack = TRY(DirectoryStack::create(std::move(tree)));
    std::optional<DirectoryStack> base_stack;
    if (base) base_stack = TRY(DirectoryStack::create(std::move(*base)));
    Writer writer(to);
    writer.start();
    writer.begin(Record::head);
    writer.text(head.snapshot.text());
    writer.text(head.from ? head.from->text() : "");
    TRY(writer.end());
    TRY(Sending(writer, std::move(stack), std::move(base_stack), false).run());
    return writer.finish();
}

Result<bool> is_same(UniqueFd tree, UniqueFd base) {
    auto stack = TRY(DirectoryStack::create(std::move(tree)));
    std::optional<DirectoryStack> base_stack = TRY(DirectoryStack::create(std::move(base)));
    Writer nothing(-1);
    Sending sending(nothing, std::move(stack), std::move(base_stack), true);
    TRY(sending.run());
    return !sending.has_changed();
}

}  // namespace triton::storage::tree_stream
