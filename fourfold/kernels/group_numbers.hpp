// Numbers of groups of channels, from numbers of channels. Where a group lies on several ranks,
// each of them has a segment of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// Channels [begin, end) of a part of the input that belong to one group.
struct Segment {
  std::size_t part = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t group = 0;

  std::int64_t channels() const { return end - begin; }
};

/// A segment of a group, on any rank: its line in what the ranks have exchanged.
struct Member {
  std::int64_t line = 0;
  std::int64_t channels = 0;
};

/// The segments of a rank, and for each of them all segments of its group.
struct GroupMap {
  std::vector<Segment> segments;
  std::vector<std::vector<Member>> members;
};

// Numbers of channels are one tensor for each part, samples × channels of the part. Numbers of
// segments are lines × 2 × samples. All are contiguous and of one type, float or double. For meta
// tensors nothing is done.

/// Line i gets the mean of segment i and the sum of the squares of the distances from it. `means`
/// and `squares` are those of single channels (channel_moments).
void segment_moments(const GroupMap& map, const std::vector<Tensor>& means,
                     const std::vector<Tensor>& squares, std::int64_t pixels, Tensor& lines);

/// For each channel, the mean of its group and the inverse of the deviation.
void group_moments(const GroupMap& map, const Tensor& lines, std::int64_t pixels, double epsilon,
                   std::vector<Tensor>& means, std::vector<Tensor>& inverses);

/// Line i gets the sums of `first` and of `second` over the channels of segment i.
void segment_sums(const GroupMap& map, const std::vector<Tensor>& first,
                  const std::vector<Tensor>& second, Tensor& lines);

/// For each channel, the sums over its group divided by the number of its elements.
void group_means(const GroupMap& map, const Tensor& lines, std::int64_t pixels,
                 std::vector<Tensor>& first, std::vector<Tensor>& second);

}  // namespace fourfold::kernels
