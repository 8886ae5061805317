#pragma once

// The one way to the messages of node.proto, as messages.h is for those of Kubernetes.
#include "host/cri/wire/messages.h"
#include "host/cri/wire/methods.h"
#include "host/cri/wire/node.pb.h"

namespace triton::cri {

namespace node = ::triton::node;

inline constexpr Method report_method{"/triton.node.Node/Report", Shape::unary};
inline constexpr Method check_method{"/triton.node.Node/Check", Shape::unary};

}  // namespace triton::cri
