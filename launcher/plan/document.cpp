#include "launcher/plan/document.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <utility>

#include <dirent.h>

#include "lib/base/name_pattern.h"
#include "lib/base/read_file.h"

namespace triton::launcher {

namespace {

constexpr std::size_t most_entries = 4096;  // of a directory that is looked through

struct Parts {
    std::string directory;  // with its slash; empty: none
    std::string name;
};

Parts split(std::string const& path) {
    std::size_t const slash = path.rfind('/');
    if (slash == path.npos) return {{}, path};
    return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

bool is_pattern(std::string_view name) { return name.find_first_of("*?[") != name.npos; }

/// The names in a directory that match, in the order of their bytes. A directory that is not there has none.
Result<std::vector<std::string>> matches(std::string const& directory, std::string const& pattern) {
    struct Close {
        void operator()(DIR* opened) const { ::closedir(opened); }
    };
    std::string const place = directory.empty() ? "." : directory;
    std::unique_ptr<DIR, Close> const opened{::opendir(place.c_str())};
    int const err = errno;
    std::vector<std::string> names;
    if (!opened && (err == ENOENT || err == ENOTDIR)) return names;
    if (!opened) return fail(err, "open " + place);
    for (std::size_t entries = 0;; ++entries) {
        errno = 0;
        dirent const* const entry = ::readdir(opened.get());
        if (!entry && errno != 0) return fail(errno, "read " + place);
        if (!entry) break;
        if (entries == most_entries)
            return fail(ErrorKind::invalid, "read " + place,
                        "it has more than " + std::to_string(most_entries) + " entries");
        if (matches_pattern(pattern, entry->d_name)) names.emplace_back(entry->d_name);
    }
    std::ranges::sort(names);
    return names;
}

class Reader {
public:
    Reader(std::string const& path, std::function<bool(std::string const& path)> const& may_open)
        : directory_(split(path).directory), may_open_(may_open) {}

    Document read(std::string const& path) {
        Document document{std::vector<config::Layer>{}, {}};
        if (Result<> const added = add({}, path, *document.layers)) {
            include_all(document);
        } else {
            problems_.push_back(added.error());
        }
        document.is_cut_short = is_cut_short_;
        if (problems_.empty()) return document;
        Error all = std::move(problems_.front());
        for (Error const& further : std::span(problems_).subspan(1))
            all.details.push_back(further.text());
        document.layers = std::unexpected(std::move(all));
        return document;
    }

private:
    void include_all(Document& document) {
        auto const includes = config::includes_of(document.layers->front().text);
        document.layers->front().is_including = !includes.empty();
        for (std::size_t i = 0; i < includes.size() && !is_full_; ++i) {
            place_ = "include[" + std::to_string(i) + "]: ";
            include(includes[i], document);
        }
    }

    void include(std::string const& path, Document& document) {
        std::string const whole = path.front() == '/' ? path : directory_ + path;
        document.watched.push_back(whole);
        Parts const parts = split(whole);
        if (!is_pattern(parts.name)) return keep(add(path, whole, *document.layers));
        std::string const shown = split(path).directory;
        if (!may_open(parts.directory)) return;
        auto const names = matches(parts.directory, parts.name);
        if (!names) return keep(std::unexpected(names.error()));
        for (std::string const& name : *names) {
            if (is_full_) return;
            document.watched.push_back(parts.directory + name);
            keep(add(shown + name, parts.directory + name, *document.layers));
        }
    }

    /// Nothing more is read once something may not be opened, a directory with names that are to match among it.
    bool may_open(std::string const& path) {
        is_cut_short_ = is_cut_short_ || (may_open_ && !may_open_(path));
        is_full_ = is_full_ || is_cut_short_;
        return !is_cut_short_;
    }

    /// What cannot be read keeps nobody from hearing of the next that cannot.
    void keep(Result<> const& added) {
        if (added) return;
        Error const& error = added.error();
        problems_.push_back({error.kind, {}, place_ + error.text(), {}, error.code});
        is_full_ = is_full_ || problems_.size() == config::most_layers;
    }

    Result<> add(std::string file, std::string const& path, std::vector<config::Layer>& layers) {
        is_full_ = layers.size() == config::most_layers;
        if (is_full_)
            return fail(ErrorKind::invalid, "read " + path,
                        "there are more than " + std::to_string(config::most_layers) + " files");
        if (!may_open(path)) return fail(ErrorKind::busy, "read " + path, "it has just come");
        auto text = read_file(path, room_);
        is_full_ = !text && text.error().kind == ErrorKind::invalid && text.error().code == 0 && !layers.empty();
        if (is_full_)
            return fail(ErrorKind::invalid, "read " + path,
                        "the files have more than " + std::to_string(config::most_layer_bytes) + " bytes in all");
        if (!text) return std::unexpected(text.error());
        room_ -= text->size();
        layers.push_back({.file = std::move(file), .text = std::move(*text)});
        return {};
    }

    std::string directory_;
    std::function<bool(std::string const& path)> const& may_open_;
    bool is_cut_short_ = false;
    std::size_t room_ = config::most_layer_bytes;
    std::string place_;     // that names what is being read
    bool is_full_ = false;  // nothing more is read
    std::vector<Error> problems_;
};

}  // namespace

Document read_document(std::string const& path, std::function<bool(std::string const& path)> const& may_open) {
    return Reader(path, may_open).read(path);
}

}  // namespace triton::launcher
