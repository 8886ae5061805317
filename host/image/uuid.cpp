#include "host/image/uuid.h"

#include <algorithm>
#include <array>
#include <string>

#include <openssl/sha.h>

namespace triton::image {

Uuid uuid_of_name(Uuid const& space, std::string_view name) {
    Uuid::Bytes bytes = space.bytes();
    std::string input(bytes.begin(), bytes.end());
    input += name;
    std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
    ::SHA1(reinterpret_cast<unsigned char const*>(input.data()), input.size(), digest.data());
    std::copy_n(digest.begin(), bytes.size(), bytes.begin());
    return Uuid::of_bytes(bytes, 5);
}

Uuid const& image_space() {
    static Uuid const space = *Uuid::parse("5c1e2f0a-6f5c-4c0e-9d7b-3a0f8f4f2b61");
    return space;
}

}  // namespace triton::image
