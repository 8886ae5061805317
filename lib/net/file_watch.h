#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>  // Boost 1.74's awaitable.hpp needs std::exchange and does not say so
#include <vector>

#include <boost/asio/io_context.hpp>

#include "lib/base/result.h"

namespace triton::net {

/// Tells when files may have changed, as PathWatcher sees it. It waits for a moment of quiet, because a certificate
/// and its key change one after the other.
class FileWatch {
public:
    /// Errors: those of PathWatcher, except that the file system is remote.
    static Result<std::unique_ptr<FileWatch>> create(boost::asio::io_context& io, std::vector<std::string> paths,
                                                     std::function<void()> changed);
    /// The result of the first watch: `unsupported` when changes by other machines go unseen.
    [[nodiscard]] Result<> const& outcome() const;
    ~FileWatch();
    FileWatch(FileWatch const&) = delete;
    FileWatch& operator=(FileWatch const&) = delete;

private:
    struct State;
    explicit FileWatch(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

/// The directories that decide where these files are (a link's, a file's). Never "/": who may read them may not read
/// all.
std::vector<std::string> deciding_directories(std::vector<std::string> const& paths);

/// The paths that must be readable to follow other paths, even swapped ones: the files, the directories that
/// decide where they are, and the one above that of each file, where its directory may be replaced. Never "/".
std::vector<std::string> readable_for(std::vector<std::string> const& paths);

}  // namespace triton::net
