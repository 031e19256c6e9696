// A list that usually has one element, and then needs no memory on the heap.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace fourfold {

/// Elements are contiguous, in the order in which they were added. T must have a default value.
template <class T>
class SmallList {
 public:
  SmallList() = default;
  SmallList(T only) : first_(std::move(only)), size_(1) {}  // NOLINT: a list of one
  SmallList(std::vector<T> all) : size_(all.size()) {       // NOLINT: the same list
    if (size_ == 1) {
      first_ = std::move(all.front());
    } else {
      many_ = std::move(all);
    }
  }
  SmallList(const SmallList&) = default;
  SmallList& operator=(const SmallList&) = default;
  SmallList(SmallList&& other) noexcept
      : first_(std::move(other.first_)),
        many_(std::move(other.many_)),
        size_(std::exchange(other.size_, 0)) {}
  SmallList& operator=(SmallList&& other) noexcept {
    first_ = std::move(other.first_);
    many_ = std::move(other.many_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~SmallList() = default;

  void push_back(T item) {
    if (size_ == 0) {
      first_ = std::move(item);
    } else {
      if (size_ == 1) many_.push_back(std::move(first_));
      many_.push_back(std::move(item));
    }
    ++size_;
  }

  void clear() { *this = SmallList(); }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T* begin() { return size_ > 1 ? many_.data() : &first_; }
  T* end() { return begin() + size_; }
  const T* begin() const { return size_ > 1 ? many_.data() : &first_; }
  const T* end() const { return begin() + size_; }
  const T& front() const { return *begin(); }

 private:
  T first_{};
  std::vector<T> many_;  // all elements, if there are several
  std::size_t size_ = 0;
};

}  // namespace fourfold
