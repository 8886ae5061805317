#include <cerrno>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/attributes.h"
#include "host/storage/directory_stack.h"
#include "host/storage/link_shelf.h"
#include "host/storage/remove_tree.h"
#include "host/storage/stream_reader.h"
#include "host/storage/tree_stream.h"

namespace triton::storage::tree_stream {

namespace {

/// Makes a tree from records, one after the other. They are not trusted: they can only affect the content of the tree
/// itself.
class Receiving {
public:
    Receiving(Reader& reader, DirectoryStack tree, bool is_change)
        : reader_(reader), tree_(std::move(tree)), shelf_(tree_.fd()), is_change_(is_change) {
        levels_.push_back(is_change);
    }

    Result<> run() {
        // The stream's writer can make it endless; what it makes is bounded by the room on the file system.
        while (true) {
            Record const record = TRY(reader_.next());
            if (record == Record::end) return end();
            if (levels_.empty()) return Reader::corrupt("there is something after the tree");
            auto taken = take(record);
            if (!taken && taken.error().kind != ErrorKind::corrupt && taken.error().attempted.empty())
                taken.error().attempted = "receive " + tree_.shown(open_.name);
            if (!taken) return taken;
        }
    }

private:
    /// A file, symbolic link or node that has begun and is not finished.
    struct Open {
        std::string name;  // empty: nothing has begun
        UniqueFd file;
        std::uint64_t number = 0;
        std::uint64_t size = 0;
    };

    Result<> take(Record record) {
        bool const needs_open = record == Record::content || record == Record::finish;
        if (record != Record::attribute && needs_open == open_.name.empty())
            return Reader::corrupt("records are out of order");
        switch (record) {
            case Record::remove: return take_removal();
            case Record::directory: return take_directory();
            case Record::up: return take_up();
            case Record::file: return take_file();
            case Record::content: return take_content();
            case Record::symlink: return take_symlink();
            case Record::node: return take_node();
            case Record::link: return take_link();
            case Record::attribute: return take_attribute();
            case Record::finish: return take_finish();
            case Record::head:
            case Record::end: break;
        }
        return Reader::corrupt("it has a record of an unknown kind");
    }

    Result<> end() {
        if (!levels_.empty()) return Reader::corrupt("it ends inside of the tree");
        return reader_.check_digest();
    }

    Result<> take_removal() {
        std::string const name = TRY(reader_.name());
        TRY(reader_.done());
        return remove_tree(tree_.fd(), name);
    }

    Result<> take_directory() {
        std::string const name = TRY(reader_.name());
        TRY(reader_.done());
        if (levels_.size() >= most_levels) return Reader::corrupt("its directories are too deep");
        bool const is_made = ::mkdirat(tree_.fd(), name.c_str(), 0700) == 0;
        if (!is_made && !(is_change_ && errno == EEXIST)) return fail(errno, "receive " + tree_.shown(name));
        TRY(tree_.enter(name));
        levels_.push_back(!is_made);
        return {};
    }

    Result<> take_up() {
        struct stat const wanted = TRY(reader_.attributes());
        TRY(reader_.done());
        TRY(clear_old_attributes());
        if (tree_.depth() == 0) TRY(shelf_.remove());
        TRY(apply({tree_.fd(), ".", tree_.fd()}, wanted));
        levels_.pop_back();
        return levels_.empty() ? Result<>{} : tree_.leave();
    }

    Result<> begin() {
        open_.name = TRY(reader_.name());
        open_.number = TRY(reader_.number());
        return {};
    }

    Result<> take_file() {
        TRY(begin());
        open_.size = TRY(reader_.number());
        TRY(reader_.done());
        if (open_.size > static_cast<std::uint64_t>(LLONG_MAX)) return Reader::corrupt("a file is too large");
        open_.file = UniqueFd{
            ::openat(tree_.fd(), open_.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
        return open_.file ? Result<>{} : fail(errno, "");
    }

    Result<> take_content() {
        std::uint64_t const offset = TRY(reader_.number());
        std::string_view bytes = TRY(reader_.text(longest_content));
        TRY(reader_.done());
        if (!open_.file || offset > open_.size || bytes.size() > open_.size - offset)
            return Reader::corrupt("content is beyond the end of its file");
        for (std::uint64_t at = offset; !bytes.empty();) {
            ssize_t const size = ::pwrite(open_.file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
            if (size < 0 && errno == EINTR) continue;
            if (size < 0) return fail(errno, "");
            bytes.remove_prefix(static_cast<std::size_t>(size));
            at += static_cast<std::uint64_t>(size);
        }
        return {};
    }

    Result<> take_symlink() {
        TRY(begin());
        std::string const target(TRY(reader_.text(longest_target)));
        TRY(reader_.done());
        if (target.empty() || target.find('\0') != target.npos) return Reader::corrupt("a symbolic link has no target");
        return ::symlinkat(target.c_str(), tree_.fd(), open_.name.c_str()) == 0 ? Result<>{} : fail(errno, "");
    }

    Result<> take_node() {
        TRY(begin());
        std::uint64_t const type = TRY(reader_.number());
        std::uint64_t const device = TRY(reader_.number());
        TRY(reader_.done());
        if (type != S_IFCHR && type != S_IFBLK && type != S_IFIFO && type != S_IFSOCK)
            return Reader::corrupt("a node is of an unknown kind");
        int const failed = ::mknodat(tree_.fd(), open_.name.c_str(), static_cast<mode_t>(type) | 0600U, device);
        return failed == 0 ? Result<>{} : fail(errno, "");
    }

    Result<> take_link() {
        std::string const name = TRY(reader_.name());
        std::uint64_t const number = TRY(reader_.number());
        TRY(reader_.done());
        if (!TRY(shelf_.link(number, tree_.fd(), name)))
            return Reader::corrupt("a hard link is to a file that was not there");
        return {};
    }

    Result<> take_attribute() {
        std::string const name(TRY(reader_.text(longest_name)));
        std::string_view const value = TRY(reader_.text(longest_value));
        TRY(reader_.done());
        if (name.empty() || name.find('\0') != name.npos) return Reader::corrupt("an extended attribute has no name");
        if (!open_.name.empty()) {
            pending_.emplace_back(name, value);
            if (pending_.size() > most_attributes) return Reader::corrupt("a file has too many extended attributes");
            return {};
        }
        TRY(clear_old_attributes());
        return set_extended_attribute({tree_.fd(), ".", tree_.fd()}, name.c_str(), value);
    }

    /// Removes the attributes of a directory that existed before: the stream brings all that it still has.
    Result<> clear_old_attributes() {
        if (!levels_.back()) return {};
        levels_.back() = false;
        Place const place{tree_.fd(), ".", tree_.fd()};
        return attributes_.read(place, [&](char const* name, std::string_view /*value*/) -> Result<> {
            return remove_extended_attribute(place, name);
        });
    }

    Result<> take_finish() {
        struct stat const wanted = TRY(reader_.attributes());
        TRY(reader_.done());
        Place const place{tree_.fd(), open_.name.c_str(), open_.file.get()};
        if (open_.file && ::ftruncate(open_.file.get(), static_cast<off_t>(open_.size)) != 0) return fail(errno, "");
        TRY(apply(place, wanted));
        if (open_.number != 0) TRY(shelf_.keep(open_.number, tree_.fd(), open_.name));
        open_ = {};
        return {};
    }

    /// Sets the attributes. Those that came earlier follow the owner, whose change clears capabilities.
    Result<> apply(Place const& place, struct stat wanted) {
        struct stat now;
        bool const is_known = place.fd < 0 ? ::fstatat(place.directory, place.name, &now, AT_SYMLINK_NOFOLLOW) == 0
                                           : ::fstat(place.fd, &now) == 0;
        if (!is_known) return fail(errno, "");
        wanted.st_mode |= now.st_mode & S_IFMT;
        TRY(set_attributes(place, wanted, now));
        for (auto const& [name, value] : pending_)
            TRY(set_extended_attribute(place, name.c_str(), value));
        pending_.clear();
        return {};
    }

    static constexpr std::size_t most_attributes = 4096;

    Reader& reader_;
    DirectoryStack tree_;
    LinkShelf shelf_;
    bool is_change_;
    std::vector<bool> levels_;  // whether each still has its old extended attributes
    Open open_;
    std::vector<std::pair<std::string, std::string>> pending_;
    ExtendedAttributes attributes_;
};

Result<Head> read_head(Reader& reader) {
    TRY(reader.start());
    if (TRY(reader.next()) != Record::head) return Reader::corrupt("its head is missing");
    auto const snapshot = SnapshotName::parse(TRY(reader.text(longest_name)));
    std::string const from(TRY(reader.text(longest_name)));
    TRY(reader.done());
    auto const base = SnapshotName::parse(from);
    if (!snapshot || (!from.empty() && !base)) return Reader::corrupt("a snapshot has none of our names");
    return Head{*snapshot, from.empty() ? std::nullopt : std::optional(*base)};
}

}  // namespace

struct Receiver::State {
    Reader reader;
    Head head;
};

Receiver::Receiver(std::unique_ptr<State> state) : state_(std::move(state)) {}
Receiver::Receiver(Receiver&&) noexcept = default;
Receiver::~Receiver() = default;

Head const& Receiver::head() const { return state_->head; }

Result<Receiver> Receiver::create(int from) {
    Reader reader(from);
    Head head = TRY(read_head(reader));
    return Receiver(std::make_unique<State>(State{std::move(reader), std::move(head)}));
}

Result<> Receiver::receive(UniqueFd tree) {
    auto stack = TRY(DirectoryStack::create(std::move(tree)));
    return Receiving(state_->reader, std::move(stack), state_->head.from.has_value()).run();
}

}  // namespace triton::storage::tree_stream
