#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace triton::simulation {

/// splitmix64: the same numbers from the same seed on every machine, which std::uniform_int_distribution does not
/// promise.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    /// In [0, bound); the bias of the modulo does not matter here.
    std::uint64_t below(std::uint64_t bound) {
        assert(bound > 0);
        return next() % bound;
    }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    template <class T, std::size_t N>
    T const& pick(std::array<T, N> const& from) {
        return from[below(N)];
    }

private:
    std::uint64_t state_;
};

}  // namespace triton::simulation
