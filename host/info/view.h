#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace triton::info {

/// How much of a machine a client may see.
enum class View : std::uint8_t {
    full,  ///< all: for the Unix socket
    open,  ///< without what the property table calls secret: for every user of the host
};

/// A shared, constant text.
using Text = std::shared_ptr<std::string const>;

}  // namespace triton::info
