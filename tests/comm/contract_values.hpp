// The values that the contract's cases move and sum, and how they are judged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "fourfold/base/text.hpp"
#include "fourfold/comm/world.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {

template <class T>
T from_int(std::int64_t value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The memory that the buffers of the cases lie in, and where it comes from: the host must be able
/// to read and write it, too. Set these before the ranks run.
inline comm::Memory contract_memory = comm::Memory::kHost;
inline void* (*contract_take)(std::size_t bytes) = [](std::size_t bytes) {
  return ::operator new(bytes);
};
inline void (*contract_give_back)(void* memory) = [](void* memory) { ::operator delete(memory); };

template <class T>
struct ContractAllocator {
  using value_type = T;
  ContractAllocator() = default;
  template <class Other>
  explicit ContractAllocator(const ContractAllocator<Other>& /*other*/) {}
  T* allocate(std::size_t count) { return static_cast<T*>(contract_take(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t /*count*/) { contract_give_back(memory); }
  bool operator==(const ContractAllocator& /*other*/) const { return true; }
};
/// A buffer of a case.
template <class T>
using Values = std::vector<T, ContractAllocator<T>>;

auto view(auto&& values) {
  auto made = comm::view(values);
  made.memory = contract_memory;
  return made;
}

/// What member `rank` holds at `i`: small whole numbers, so that every sum of eight is exact.
inline std::int64_t value_at(int rank, std::int64_t i) {
  return (i * 7 + rank * 5 + (i >> 9)) % 29 - 14 * (rank % 2);
}

inline std::int64_t reduced_at(int ranks, std::int64_t i, comm::ReduceOp op) {
  std::int64_t result = value_at(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t value = value_at(rank, i);
    result = op == comm::ReduceOp::kSum ? result + value : std::max(result, value);
  }
  return result;
}

template <class T>
Values<T> filled(std::int64_t count, const auto& function) {
  Values<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = from_int<T>(function(i));
  }
  return values;
}

/// Collects the first difference of a rank, to be judged together with those of the others.
class Findings {
 public:
  template <class T>
  void expect_values(const Values<T>& values, const std::string& what, const auto& function) {
    for (std::size_t i = 0; i < values.size() && first_.empty(); ++i) {
      if (!(values[i] == from_int<T>(function(static_cast<std::int64_t>(i))))) {
        first_ = concat(what, ": element ", i, " of ", values.size(), " is wrong");
      }
    }
  }
  void expect(bool holds, const std::string& what) {
    if (!holds && first_.empty()) first_ = what;
  }
  void judge(comm::World& world) const { expect_on_all_ranks(world, first_.empty(), first_); }

 private:
  std::string first_;
};

}  // namespace fourfold::test
