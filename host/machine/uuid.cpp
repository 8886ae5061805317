#include "host/machine/uuid.h"

#include <cerrno>

#include <sys/random.h>

#include "lib/json/text.h"

namespace triton::machine {

Result<Uuid> parse_uuid(std::string_view text) {
    if (auto uuid = Uuid::parse(text)) return *std::move(uuid);
    return fail(json::quoted(text) + " is not a UUID");
}

Result<std::string> random_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    ssize_t const got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got != static_cast<ssize_t>(count)) return fail(errno, "get random bytes");
    return bytes;
}

}  // namespace triton::machine
