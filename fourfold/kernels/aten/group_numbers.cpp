// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

/// The numbers of a segment's channels: samples × channels.
Tensor channels_of(const std::vector<Tensor>& parts, const Segment& segment) {
  return parts[segment.part].narrow(1, segment.begin, segment.channels());
}

/// A number of a line, for each sample.
Tensor number(const Tensor& lines, std::int64_t line, std::int64_t index) {
  return lines.select(0, line).select(0, index);
}

double channels_of(const std::vector<Member>& members) {
  std::int64_t count = 0;
  for (const Member& member : members) count += member.channels;
  return static_cast<double>(count);
}

/// The sum over the members of a group of one of their numbers.
Tensor sum_over(const std::vector<Member>& members, const Tensor& lines, std::int64_t index) {
  const Tensor sum = at::zeros({lines.size(2)}, lines.options());
  for (const Member& member : members) sum.add_(number(lines, member.line, index));
  return sum;
}

}  // namespace

void segment_moments(const GroupMap& map, const std::vector<Tensor>& means,
                     const std::vector<Tensor>& squares, std::int64_t pixels, Tensor& lines) {
  const NoGraph guard;
  for (std::size_t i = 0; i < map.segments.size(); ++i) {
    const auto line = static_cast<std::int64_t>(i);
    const Tensor mean = channels_of(means, map.segments[i]);
    const Tensor centre = mean.mean(1);
    const Tensor distances = at::sub(mean, column(centre)).square_();
    number(lines, line, 0).copy_(centre);
    number(lines, line, 1)
        .copy_(distances.mul_(pixels).add_(channels_of(squares, map.segments[i])).sum(1));
  }
}

void group_moments(const GroupMap& map, const Tensor& lines, std::int64_t pixels, double epsilon,
                   std::vector<Tensor>& means, std::vector<Tensor>& inverses) {
  const NoGraph guard;
  for (std::size_t i = 0; i < map.segments.size(); ++i) {
    const double width = channels_of(map.members[i]);
    const auto size = static_cast<double>(pixels);
    const Tensor centre = at::zeros({lines.size(2)}, lines.options());
    for (const Member& member : map.members[i]) {
      centre.add_(number(lines, member.line, 0), static_cast<double>(member.channels));
    }
    centre.div_(width);
    const Tensor sum = sum_over(map.members[i], lines, 1);
    for (const Member& member : map.members[i]) {
      sum.add_(at::sub(number(lines, member.line, 0), centre).square_(),
               static_cast<double>(member.channels) * size);
    }
    channels_of(means, map.segments[i]).copy_(column(centre));
    channels_of(inverses, map.segments[i])
        .copy_(column(sum.div_(width * size).add_(epsilon).rsqrt_()));
  }
}

void segment_sums(const GroupMap& map, const std::vector<Tensor>& first,
                  const std::vector<Tensor>& second, Tensor& lines) {
  const NoGraph guard;
  for (std::size_t i = 0; i < map.segments.size(); ++i) {
    const auto line = static_cast<std::int64_t>(i);
    number(lines, line, 0).copy_(channels_of(first, map.segments[i]).sum(1));
    number(lines, line, 1).copy_(channels_of(second, map.segments[i]).sum(1));
  }
}

void group_means(const GroupMap& map, const Tensor& lines, std::int64_t pixels,
                 std::vector<Tensor>& first, std::vector<Tensor>& second) {
  const NoGraph guard;
  for (std::size_t i = 0; i < map.segments.size(); ++i) {
    const double size = channels_of(map.members[i]) * static_cast<double>(pixels);
    const auto mean = [&](std::int64_t index) {
      return column(sum_over(map.members[i], lines, index).div_(size));
    };
    channels_of(first, map.segments[i]).copy_(mean(0));
    channels_of(second, map.segments[i]).copy_(mean(1));
  }
}

}  // namespace fourfold::kernels::aten
