#include "host/storage/random_name.h"

#include <array>
#include <cstdlib>

#include <sys/random.h>

namespace triton::storage {

std::string random_name() {
    std::array<unsigned char, 8> bytes{};
    // Up to 256 bytes are always read completely. Without them no name could be unique.
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
    std::string text;
    for (unsigned char const byte : bytes) {
        text += "0123456789abcdef"[byte >> 4U];
        text += "0123456789abcdef"[byte & 15U];
    }
    return text;
}

}  // namespace triton::storage
