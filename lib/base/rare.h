#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <utility>

namespace triton {

/// An optional value that few of many objects have: without one it takes the room of a pointer. It behaves as
/// std::optional does: copies are deep, two of them are equal when both are empty or their values are equal.
template <class T>
class Rare {
public:
    using value_type = T;

    Rare() = default;
    Rare(std::nullopt_t) {}  // NOLINT(*-explicit-*)
    template <class U = T>
        requires std::convertible_to<U, T> && (!std::same_as<std::remove_cvref_t<U>, Rare>) &&
                 (!std::same_as<std::remove_cvref_t<U>, std::optional<T>>) &&
                 (!std::same_as<std::remove_cvref_t<U>, std::nullopt_t>)
    Rare(U&& value) : value_(make(T(std::forward<U>(value)))) {}                         // NOLINT(*-explicit-*)
    Rare(std::optional<T> other) : value_(other ? make(std::move(*other)) : nullptr) {}  // NOLINT(*-explicit-*)
    Rare(Rare const& other) : value_(other ? make(T(*other)) : nullptr) {}
    Rare(Rare&& other) noexcept = default;
    Rare& operator=(Rare const& other) {
        if (this != &other) value_ = other ? make(T(*other)) : nullptr;
        return *this;
    }
    Rare& operator=(Rare&& other) noexcept = default;
    template <class U = T>
        requires std::convertible_to<U, T> && (!std::same_as<std::remove_cvref_t<U>, Rare>) &&
                 (!std::same_as<std::remove_cvref_t<U>, std::nullopt_t>)
    Rare& operator=(U&& value) {
        value_ = make(T(std::forward<U>(value)));
        return *this;
    }
    Rare& operator=(std::nullopt_t) {
        value_.reset();
        return *this;
    }
    ~Rare() = default;

    template <class... Arguments>
    T& emplace(Arguments&&... arguments) {
        value_ = std::make_unique<T>(std::forward<Arguments>(arguments)...);
        return *value_;
    }
    void reset() { value_.reset(); }

    [[nodiscard]] bool has_value() const { return value_ != nullptr; }
    explicit operator bool() const { return has_value(); }
    T& operator*() { return *value_; }
    T const& operator*() const { return *value_; }
    T* operator->() { return value_.get(); }
    T const* operator->() const { return value_.get(); }
    template <class U>
    [[nodiscard]] T value_or(U&& otherwise) const {
        return value_ ? *value_ : T(std::forward<U>(otherwise));
    }

    bool operator==(Rare const& other) const {
        return value_ && other.value_ ? *value_ == *other.value_ : value_ == other.value_;
    }
    bool operator==(T const& other) const { return value_ && *value_ == other; }
    bool operator==(std::nullopt_t) const { return !value_; }

private:
    static std::unique_ptr<T> make(T value) { return std::make_unique<T>(std::move(value)); }

    std::unique_ptr<T> value_;
};

}  // namespace triton
