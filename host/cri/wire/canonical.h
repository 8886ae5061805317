#pragma once

#include <string>

namespace google::protobuf {
class MessageLite;
}

namespace triton::cri {

/// The bytes of a message, which are the same for equal ones: entries of maps are sorted.
std::string canonical(google::protobuf::MessageLite const& message);

}  // namespace triton::cri
