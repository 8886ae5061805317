#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <optional>

#include <sys/mman.h>

namespace triton::launcher {

/// How far a copy of the launcher has come, which may hang on the way: a number in a page that both have.
class CopyProgress {
public:
    CopyProgress() = default;
    CopyProgress(CopyProgress const&) = delete;
    CopyProgress& operator=(CopyProgress const&) = delete;
    ~CopyProgress() {
        if (number_) ::munmap(number_, sizeof *number_);
    }

    /// Before the copy is made. Without memory nothing is known of it.
    void begin() {
        if (!number_) {
            void* const page =
                ::mmap(nullptr, sizeof *number_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            if (page == MAP_FAILED) return;
            number_ = new (page) std::atomic<std::uint32_t>();
        }
        number_->store(none, std::memory_order_relaxed);
    }
    /// In the copy.
    void set(std::uint32_t number) const {
        if (number_) number_->store(number, std::memory_order_relaxed);
    }
    /// nullopt: the copy has set nothing.
    [[nodiscard]] std::optional<std::uint32_t> number() const {
        std::uint32_t const number = number_ ? number_->load(std::memory_order_relaxed) : none;
        return number == none ? std::nullopt : std::optional(number);
    }

private:
    static constexpr std::uint32_t none = UINT32_MAX;
    std::atomic<std::uint32_t>* number_ = nullptr;
};

}  // namespace triton::launcher
