#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>  // Boost 1.74's awaitable.hpp needs std::exchange and does not say so
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/result.h"

namespace triton::sidecar {

/// Tells when files may have changed: written, replaced, or reached through another link (a mounted Secret). It watches
/// the directories that the paths name and those that they lead to, and waits for a moment of quiet, because a
/// certificate and its key change one after the other.
class FileWatch {
public:
    /// Errors: those of inotify_init1(2).
    static Result<std::unique_ptr<FileWatch>> create(boost::asio::io_context& io, std::vector<std::string> paths,
                                                     std::function<void()> changed);
    ~FileWatch();
    FileWatch(FileWatch const&) = delete;
    FileWatch& operator=(FileWatch const&) = delete;

private:
    struct State;
    explicit FileWatch(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

/// The directories that must be readable for paths to be followed: their own and those that they lead to.
std::vector<std::string> directories_of(std::vector<std::string> const& paths);

}  // namespace triton::sidecar
