#include "lib/base/idle_memory.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace triton {

namespace {

std::size_t const page = static_cast<std::size_t>(::getpagesize());

/// What is not a whole page belongs to somebody else as well.
TEST(IdleMemory, OnlyWholePagesAreGivenBack) {
    auto const room = std::make_unique<char[]>(8 * page);
    std::fill_n(room.get(), 8 * page, 'x');
    std::size_t const skipped = page - reinterpret_cast<std::uintptr_t>(room.get()) % page;
    char* const aligned = room.get() + skipped;
    release_pages(aligned + 1, 4 * page - 2);
    EXPECT_TRUE(std::all_of(room.get(), aligned + page, [](char byte) { return byte == 'x'; }));
    EXPECT_TRUE(std::all_of(aligned + page, aligned + 3 * page, [](char byte) { return byte == '\0'; }));
    EXPECT_TRUE(std::all_of(aligned + 3 * page, room.get() + 8 * page, [](char byte) { return byte == 'x'; }));
    release_pages(aligned + 5, page);  // no whole one
    EXPECT_EQ(aligned[5], 'x');
    release_pages(nullptr, 0);
}

TEST(IdleMemory, WhatAVectorHasIsKept) {
    std::vector<std::uint64_t> numbers(page, 7);
    numbers.resize(10);
    release_room(numbers);
    EXPECT_EQ(numbers, std::vector<std::uint64_t>(10, 7));
    EXPECT_GE(numbers.capacity(), page);
    numbers.resize(page, 8);
    EXPECT_EQ(numbers.back(), 8U);
}

}  // namespace

}  // namespace triton
