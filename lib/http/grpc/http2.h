#pragma once

// What both sides of a connection need of nghttp2.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include <nghttp2/nghttp2.h>

namespace triton::http::grpc {

inline constexpr std::string_view grpc_type = "application/grpc";

inline nghttp2_session* raw(std::unique_ptr<void, void (*)(void*)> const& session) {
    return static_cast<nghttp2_session*>(session.get());
}

inline std::string_view view(std::uint8_t const* text, std::size_t size) {
    return {reinterpret_cast<char const*>(text), size};
}

/// nghttp2 copies both.
inline nghttp2_nv field(std::string_view name, std::string_view value) {
    auto const bytes = [](std::string_view text) {
        return const_cast<std::uint8_t*>(reinterpret_cast<std::uint8_t const*>(text.data()));
    };
    return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

/// Throws std::bad_alloc when the result of a function of nghttp2 says so.
inline void check(int result) {
    if (result == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
}

/// The result of a callback of nghttp2, through whose frames exceptions must not pass.
template <class Work>
int guarded(Work&& work) {
    try {
        work();
        return 0;
    } catch (std::exception const&) {  // of memory
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
}

}  // namespace triton::http::grpc
