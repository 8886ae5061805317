#pragma once

#include <cstddef>

namespace triton::json {

/// Compiles only when a T has exactly `count` members, which must be public: for tables of the members of a struct,
/// where a forgotten row would lose a value without a word. Costs nothing when it runs.
template <std::size_t count, class T>
constexpr void expect_members([[maybe_unused]] T const& object) {
    static_assert(count >= 1 && count <= 44, "lengthen the ladder below");
    // The compiler says how many there are: "only 5 names provided for structured binding, while T decomposes into 6".
    // clang-format off
    if constexpr (count == 1) { [[maybe_unused]] auto const& [m1] = object; }
    else if constexpr (count == 2) { [[maybe_unused]] auto const& [m1, m2] = object; }
    else if constexpr (count == 3) { [[maybe_unused]] auto const& [m1, m2, m3] = object; }
    else if constexpr (count == 4) { [[maybe_unused]] auto const& [m1, m2, m3, m4] = object; }
    else if constexpr (count == 5) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5] = object; }
    else if constexpr (count == 6) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6] = object; }
    else if constexpr (count == 7) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7] = object; }
    else if constexpr (count == 8) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8] = object; }
    else if constexpr (count == 9) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9] = object; }
    else if constexpr (count == 10) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10] = object; }
    else if constexpr (count == 11) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11] = object; }
    else if constexpr (count == 12) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12] = object; }
    else if constexpr (count == 13) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13] = object; }
    else if constexpr (count == 14) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14] = object; }
    else if constexpr (count == 15) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15] = object; }
    else if constexpr (count == 16) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16] = object; }
    else if constexpr (count == 17) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17] = object; }
    else if constexpr (count == 18) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18] = object; }
    else if constexpr (count == 19) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19] = object; }
    else if constexpr (count == 20) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20] = object; }
    else if constexpr (count == 21) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21] = object; }
    else if constexpr (count == 22) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22] = object; }
    else if constexpr (count == 23) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23] = object; }
    else if constexpr (count == 24) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24] = object; }
    else if constexpr (count == 25) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25] = object; }
    else if constexpr (count == 26) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26] = object; }
    else if constexpr (count == 27) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27] = object; }
    else if constexpr (count == 28) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28] = object; }
    else if constexpr (count == 29) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29] = object; }
    else if constexpr (count == 30) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30] = object; }
    else if constexpr (count == 31) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31] = object; }
    else if constexpr (count == 32) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32] = object; }
    else if constexpr (count == 33) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33] = object; }
    else if constexpr (count == 34) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34] = object; }
    else if constexpr (count == 35) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35] = object; }
    else if constexpr (count == 36) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36] = object; }
    else if constexpr (count == 37) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37] = object; }
    else if constexpr (count == 38) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38] = object; }
    else if constexpr (count == 39) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39] = object; }
    else if constexpr (count == 40) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40] = object; }
    else if constexpr (count == 41) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41] = object; }
    else if constexpr (count == 42) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42] = object; }
    else if constexpr (count == 43) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43] = object; }
    else if constexpr (count == 44) { [[maybe_unused]] auto const& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44] = object; }
    // clang-format on
}

}  // namespace triton::json
