#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace triton::image {

/// The current activity of an import.
enum class Phase : std::uint8_t { resolving, downloading, unpacking, finishing };

std::string_view name_of(Phase phase);

/// The progress of a whole image, not of one layer.
struct Progress {
    Phase phase = Phase::resolving;
    std::string image;             ///< what the user named
    std::uint64_t done = 0;        ///< bytes
    std::uint64_t total = 0;       ///< 0: not known
    std::string waiting_for = {};  ///< the failure after which a server is asked again, while that is waited for
};

/// The progress of one blob of an image.
struct BlobProgress {
    std::string digest;
    std::string media_type;
    std::uint64_t done = 0;  ///< bytes
    std::uint64_t total = 0;
    bool is_verifying = false;  ///< all bytes are there
    bool is_stored = false;
};

/// Watches a command. It is called by one thread at a time.
class Observer {
public:
    virtual ~Observer() = default;
    /// Called a few times a second at most.
    virtual void progress(Progress const& progress) = 0;
    /// Called as often for each blob that a registry sends.
    virtual void blob(BlobProgress const& /*progress*/) {}
    /// Reports what was done, as a sentence without a full stop: "Imported image ...".
    virtual void message(std::string_view text) = 0;
    /// Reports what the user should know although the work continued.
    virtual void warning(std::string_view text) = 0;
};

}  // namespace triton::image
