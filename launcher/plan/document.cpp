#include "launcher/plan/document.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fnmatch.h>

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
        if (::fnmatch(pattern.c_str(), entry->d_name, FNM_PERIOD) == 0) names.emplace_back(entry->d_name);
    }
    std::ranges::sort(names);
    return names;
}

class Reader {
public:
    explicit Reader(std::string const& path) : directory_(split(path).directory) {}

    Document read(std::string const& path) {
        Document document{std::vector<config::Layer>{}, {}};
        Result<> const done = add_all(path, document);
        if (!done) document.layers = std::unexpected(done.error());
        return document;
    }

private:
    Result<> add_all(std::string const& path, Document& document) {
        TRY(add({}, path, *document.layers));
        auto const includes = config::includes_of(document.layers->front().text);
        document.layers->front().is_including = !includes.empty();
        for (std::size_t i = 0; i < includes.size(); ++i) {
            Result<> added = include(includes[i], document);
            if (added) continue;
            Error const& error = added.error();
            return std::unexpected(
                Error{error.kind, {}, "include[" + std::to_string(i) + "]: " + error.text(), {}, error.code});
        }
        return {};
    }

    Result<> include(std::string const& path, Document& document) {
        std::string const whole = path.front() == '/' ? path : directory_ + path;
        document.watched.push_back(whole);
        Parts const parts = split(whole);
        if (!is_pattern(parts.name)) return add(path, whole, *document.layers);
        std::string const shown = split(path).directory;
        for (std::string const& name : TRY(matches(parts.directory, parts.name))) {
            document.watched.push_back(parts.directory + name);
            TRY(add(shown + name, parts.directory + name, *document.layers));
        }
        return {};
    }

    Result<> add(std::string file, std::string const& path, std::vector<config::Layer>& layers) {
        if (layers.size() == config::most_layers)
            return fail(ErrorKind::invalid, "read " + path,
                        "there are more than " + std::to_string(config::most_layers) + " files");
        auto text = read_file(path, room_);
        if (!text && text.error().kind == ErrorKind::invalid && text.error().code == 0 && !layers.empty())
            return fail(ErrorKind::invalid, "read " + path,
                        "the files have more than " + std::to_string(config::most_layer_bytes) + " bytes in all");
        if (!text) return std::unexpected(text.error());
        room_ -= text->size();
        layers.push_back({.file = std::move(file), .text = std::move(*text)});
        return {};
    }

    std::string directory_;
    std::size_t room_ = config::most_layer_bytes;
};

}  // namespace

Document read_document(std::string const& path) { return Reader(path).read(path); }

}  // namespace triton::launcher
