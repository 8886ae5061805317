#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "lib/base/rare.h"

namespace triton {

/// A list that few of many objects have: an empty one takes the room of a pointer. Otherwise it behaves as std::vector
/// does, and is one for those who only read.
template <class T>
class RareList {
public:
    using value_type = T;
    using iterator = T*;
    using const_iterator = T const*;

    RareList() = default;
    RareList(std::vector<T> list) {  // NOLINT(*-explicit-*)
        if (!list.empty()) list_ = std::move(list);
    }
    RareList(std::initializer_list<T> values) : RareList(std::vector<T>(values)) {}

    operator std::vector<T> const&() const {  // NOLINT(*-explicit-*)
        static std::vector<T> const none;
        return list_ ? *list_ : none;
    }
    [[nodiscard]] std::size_t size() const { return list_ ? list_->size() : 0; }
    [[nodiscard]] bool empty() const { return size() == 0; }
    [[nodiscard]] T* begin() { return list_ ? list_->data() : nullptr; }
    [[nodiscard]] T* end() { return begin() + size(); }
    [[nodiscard]] T const* begin() const { return list_ ? list_->data() : nullptr; }
    [[nodiscard]] T const* end() const { return begin() + size(); }
    [[nodiscard]] T& front() { return list_->front(); }
    [[nodiscard]] T const& front() const { return list_->front(); }
    [[nodiscard]] T& operator[](std::size_t index) { return (*list_)[index]; }
    [[nodiscard]] T const& operator[](std::size_t index) const { return (*list_)[index]; }

    void clear() { list_.reset(); }
    void push_back(T value) {
        if (!list_) list_.emplace();
        list_->push_back(std::move(value));
    }
    T& emplace_back() {
        if (!list_) list_.emplace();
        return list_->emplace_back();
    }

    bool operator==(RareList const& other) const { return std::ranges::equal(*this, other); }

private:
    Rare<std::vector<T>> list_;
};

}  // namespace triton
