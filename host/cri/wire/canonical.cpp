#include "host/cri/wire/canonical.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

namespace triton::cri {

std::string canonical(google::protobuf::MessageLite const& message) {
    std::string text;
    {
        google::protobuf::io::StringOutputStream out(&text);
        google::protobuf::io::CodedOutputStream coded(&out);
        coded.SetSerializationDeterministic(true);
        message.SerializeToCodedStream(&coded);
    }
    return text;
}

}  // namespace triton::cri
