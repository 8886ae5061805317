#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::http::spdy {

/// Names are lower-case. Several values of one name are one text, joined by a zero byte.
using Headers = std::map<std::string, std::string>;

inline constexpr std::size_t most_headers = 16;
inline constexpr std::size_t most_header_bytes = 4096;

/// Reads the header blocks that a peer sends: all of a connection are one zlib stream. After an error it cannot go on.
class HeaderReader {
public:
    HeaderReader();
    ~HeaderReader();
    HeaderReader(HeaderReader const&) = delete;
    HeaderReader& operator=(HeaderReader const&) = delete;

    /// Unpacks no more than most_header_bytes, whatever the block promises. Errors: `corrupt`.
    Result<Headers> read(std::string_view block);

private:
    struct Stream;
    std::unique_ptr<Stream> stream_;
};

/// Writes the header blocks of one direction of a connection.
class HeaderWriter {
public:
    HeaderWriter();
    ~HeaderWriter();
    HeaderWriter(HeaderWriter const&) = delete;
    HeaderWriter& operator=(HeaderWriter const&) = delete;

    std::string write(Headers const& headers);

private:
    struct Stream;
    std::unique_ptr<Stream> stream_;
};

}  // namespace triton::http::spdy
