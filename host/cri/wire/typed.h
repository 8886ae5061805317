#pragma once

#include <memory>
#include <string>
#include <utility>

#include "host/cri/wire/messages.h"
#include "host/cri/wire/router.h"
#include "lib/http/grpc/call.h"

namespace triton::cri {

/// Makes a handler that gets the message of the request. A request that is not such a message ends with INTERNAL, as
/// the servers of others do.
template <class Request, class Handle>
Router::Handler typed(Handle handle) {
    return [handle = std::move(handle)](std::shared_ptr<http::grpc::Call> const& call) {
        Request request;
        if (!request.ParseFromString(call->message()))
            return call->finish({http::grpc::Code::internal, "the request is not a valid message"});
        handle(call, std::as_const(request));
    };
}

/// Makes a handler that answers at once.
template <class Request, class Make>
Router::Handler answered(Make make) {
    return typed<Request>(
        [make = std::move(make)](std::shared_ptr<http::grpc::Call> const& call, Request const& request) {
            call->answer(make(request).SerializeAsString());
        });
}

}  // namespace triton::cri
