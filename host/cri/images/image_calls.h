#pragma once

#include <functional>
#include <memory>
#include <string>

#include "host/cri/images/library.h"
#include "host/cri/images/pulls.h"
#include "host/cri/images/workers.h"
#include "host/cri/wire/router.h"
#include "lib/base/result.h"

namespace triton::cri {

/// Serves the ImageService of CRI. Nothing that may block runs in the caller's thread: reading, removing and pulling
/// have threads of their own, so that a pull that takes long holds up neither.
class ImageCalls {
public:
    struct Surroundings {
        /// Calls it later in the thread of the calls; from any thread.
        std::function<void(std::function<void()>)> post;
        /// Reports a pull, in the thread of the calls.
        std::function<void(std::string const& image, Result<std::string> const& id)> pulled;
    };

    ImageCalls(ImageLibrary& library, std::size_t parallel_pulls, Surroundings around);
    ~ImageCalls();
    ImageCalls(ImageCalls const&) = delete;
    ImageCalls& operator=(ImageCalls const&) = delete;

    void add_to(Router& router);
    /// Gives up all pulls: their calls end with an error.
    void cancel_pulls() { pulls_.cancel(); }
    [[nodiscard]] std::size_t running_pulls() const { return pulls_.running(); }

private:
    using CallPtr = std::shared_ptr<http::grpc::Call>;
    /// Makes an answer, or an error, in another thread.
    using Make = std::function<Result<std::string>()>;
    void answer_from(Workers& workers, CallPtr const& call, Make make);
    void stream_images(CallPtr const& call, std::string const& name);
    Result<> start_pull(PullKey const& key, int cancel, Pulls::Done finished);

    ImageLibrary& library_;
    Surroundings around_;
    Pulls pulls_;
    Workers readers_;
    Workers removers_;
    Workers pullers_;
};

}  // namespace triton::cri
