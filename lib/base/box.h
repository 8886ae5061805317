#pragma once

#include <memory>
#include <utility>

namespace triton {

/// A value that stays where it is while its owner changes: a move costs what that of a pointer does. Otherwise it
/// behaves as the value does: copies are deep, and two are equal when their values are. One that was moved from has no
/// value, and can only be assigned to or destroyed.
template <class T>
class Box {
public:
    Box() : value_(std::make_unique<T>()) {}
    Box(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT(*-explicit-*)
    Box(Box const& other) : value_(std::make_unique<T>(*other)) {}
    Box(Box&& other) noexcept = default;
    Box& operator=(Box const& other) {
        if (this != &other) value_ = std::make_unique<T>(*other);
        return *this;
    }
    Box& operator=(Box&& other) noexcept = default;
    ~Box() = default;

    operator T&() { return *value_; }              // NOLINT(*-explicit-*)
    operator T const&() const { return *value_; }  // NOLINT(*-explicit-*)
    T& operator*() { return *value_; }
    T const& operator*() const { return *value_; }
    T* operator->() { return value_.get(); }
    T const* operator->() const { return value_.get(); }

    bool operator==(Box const& other) const { return *value_ == *other.value_; }

private:
    std::unique_ptr<T> value_;
};

}  // namespace triton
