#pragma once

#include <memory>
#include <string>
#include <vector>

#include <curl/curl.h>

#include "host/download/transfer.h"
#include "host/role/channel.h"
#include "lib/base/result.h"

namespace triton::download {

/// Reads what TLS needs of the file system. Called once, before there are threads. Errors: `unavailable`.
Result<> prepare();

/// Serves one library over one channel: many orders side by side. It has the network, and nothing else: what it gets
/// goes into pipes.
class Downloader {
public:
    /// `authorities`: certificates of the system, in PEM. Errors: `unavailable` when out of memory.
    static Result<Downloader> create(role::Channel channel, std::string authorities);
    Downloader(Downloader&&) noexcept = default;
    Downloader& operator=(Downloader&&) = delete;
    ~Downloader();

    /// Until the library closes the channel. Errors: `corrupt` for a message that makes no sense.
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
    std::vector<std::unique_ptr<Transfer>> transfers_;  // is destroyed before multi_
};

/// The whole content of a sealed memfd. Errors: `corrupt` when it can still be changed, or is longer than the limit.
Result<std::string> read_sealed(int fd, std::size_t limit);

}  // namespace triton::download
