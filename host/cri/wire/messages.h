#pragma once

// The one way to the generated messages, which cost seconds to compile: sources include it, headers do not.
#include <google/protobuf/message_lite.h>

#include "host/cri/wire/records.pb.h"
#include "host/cri/wire/runtime.pb.h"

namespace triton::cri {

namespace v1 = ::runtime::v1;

}  // namespace triton::cri
