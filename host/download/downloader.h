#pragma once

#include <memory>
#include <string>
#include <vector>

#include <curl/curl.h>

#include "host/download/transfer.h"
#include "host/role/channel.h"
#include "lib/base/result.h"

namespace triton::download {

/// Reads what TLS needs from the file system. To be called once, before there are threads. Errors: `unavailable`.
Result<> prepare();

/// Serves one library over one channel, with many orders side by side. It has only the network, and writes what it gets
/// into pipes.
class Downloader {
public:
    /// `authorities`: certificates of the system, in PEM. Errors: `unavailable` when out of memory.
    static Result<Downloader> create(role::Channel channel, std::string authorities);
    Downloader(Downloader&&) noexcept = default;
    Downloader& operator=(Downloader&&) = delete;
    ~Downloader();

    /// Runs until the library closes the channel. Errors: `corrupt` for a message that makes no sense.
    Result<> run();

private:
    struct CleanUp {
        void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
    };
    Downloader(role::Channel channel, std::unique_ptr<CURLM, CleanUp> multi, std::string authorities);
    Result<> wait();
    Result<bool> take_order();
    void cancel(std::uint32_t id);
    void drive();
    Result<> tell();

    role::Channel channel_;
    std::unique_ptr<CURLM, CleanUp> multi_;
    std::unique_ptr<Surroundings> surroundings_;
    std::vector<std::unique_ptr<Transfer>> transfers_;  // destroyed before multi_
};

/// Reads the whole content of a sealed memfd. Errors: `corrupt` when it can still be changed, or exceeds the limit.
Result<std::string> read_sealed(int fd, std::size_t limit);

}  // namespace triton::download
