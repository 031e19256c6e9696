// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

template <class Body>
void for_float_or_double(const Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  body(float{});
}

/// The numbers of a channel's sample.
template <class T>
struct Channels {
  explicit Channels(const Tensor& tensor)
      : elements(kernels::elements<T>(tensor)), columns(tensor.size(1)) {}
  T& at(std::int64_t sample, std::int64_t channel) const {
    return elements[sample * columns + channel];
  }
  T* elements;
  std::int64_t columns;
};

/// The two numbers of a line.
template <class T>
struct Line {
  Line(const Tensor& lines, std::int64_t index)
      : samples(lines.size(2)),
        first(elements<T>(lines) + 2 * index * samples),
        second(first + samples) {}
  std::int64_t samples;
  T* first;
  T* second;
};

std::int64_t channels_of(const std::vector<Member>& members) {
  std::int64_t count = 0;
  for (const Member& member : members) count += member.channels;
  return count;
}

}  // namespace

void segment_moments(const GroupMap& map, const std::vector<Tensor>& means,
                     const std::vector<Tensor>& squares, std::int64_t pixels, Tensor& lines) {
  for_float_or_double(lines, [&]<class T>(T) {
    for (std::size_t i = 0; i < map.segments.size(); ++i) {
      const Segment& s = map.segments[i];
      const Line<T> line(lines, static_cast<std::int64_t>(i));
      const Channels<const T> mean(means[s.part]);
      const Channels<const T> square(squares[s.part]);
      for (std::int64_t n = 0; n < line.samples; ++n) {
        T centre = 0;
        for (std::int64_t c = s.begin; c < s.end; ++c) centre += mean.at(n, c);
        centre /= static_cast<T>(s.channels());
        T sum = 0;
        for (std::int64_t c = s.begin; c < s.end; ++c) {
          const T d = mean.at(n, c) - centre;
          sum += square.at(n, c) + static_cast<T>(pixels) * d * d;
        }
        line.first[n] = centre;
        line.second[n] = sum;
      }
    }
  });
}

void group_moments(const GroupMap& map, const Tensor& lines, std::int64_t pixels, double epsilon,
                   std::vector<Tensor>& means, std::vector<Tensor>& inverses) {
  for_float_or_double(lines, [&]<class T>(T) {
    for (std::size_t i = 0; i < map.segments.size(); ++i) {
      const Segment& s = map.segments[i];
      const auto width = static_cast<T>(channels_of(map.members[i]));
      const auto size = static_cast<T>(pixels);
      const Channels<T> mean(means[s.part]);
      const Channels<T> inverse(inverses[s.part]);
      for (std::int64_t n = 0; n < lines.size(2); ++n) {
        T centre = 0;
        for (const Member& member : map.members[i]) {
          centre += static_cast<T>(member.channels) * Line<const T>(lines, member.line).first[n];
        }
        centre /= width;
        T sum = 0;
        for (const Member& member : map.members[i]) {
          const Line<const T> line(lines, member.line);
          const T d = line.first[n] - centre;
          sum += line.second[n] + static_cast<T>(member.channels) * size * d * d;
        }
        const T scale = 1 / std::sqrt(sum / (width * size) + static_cast<T>(epsilon));
        for (std::int64_t c = s.begin; c < s.end; ++c) {
          mean.at(n, c) = centre;
          inverse.at(n, c) = scale;
        }
      }
    }
  });
}

void segment_sums(const GroupMap& map, const std::vector<Tensor>& first,
                  const std::vector<Tensor>& second, Tensor& lines) {
  for_float_or_double(lines, [&]<class T>(T) {
    for (std::size_t i = 0; i < map.segments.size(); ++i) {
      const Segment& s = map.segments[i];
      const Line<T> line(lines, static_cast<std::int64_t>(i));
      const Channels<const T> a(first[s.part]);
      const Channels<const T> b(second[s.part]);
      for (std::int64_t n = 0; n < line.samples; ++n) {
        line.first[n] = line.second[n] = 0;
        for (std::int64_t c = s.begin; c < s.end; ++c) {
          line.first[n] += a.at(n, c);
          line.second[n] += b.at(n, c);
        }
      }
    }
  });
}

void group_means(const GroupMap& map, const Tensor& lines, std::int64_t pixels,
                 std::vector<Tensor>& first, std::vector<Tensor>& second) {
  for_float_or_double(lines, [&]<class T>(T) {
    for (std::size_t i = 0; i < map.segments.size(); ++i) {
      const Segment& s = map.segments[i];
      const auto size = static_cast<T>(channels_of(map.members[i]) * pixels);
      const Channels<T> a(first[s.part]);
      const Channels<T> b(second[s.part]);
      for (std::int64_t n = 0; n < lines.size(2); ++n) {
        T sums[2] = {0, 0};
        for (const Member& member : map.members[i]) {
          const Line<const T> line(lines, member.line);
          sums[0] += line.first[n];
          sums[1] += line.second[n];
        }
        for (std::int64_t c = s.begin; c < s.end; ++c) {
          a.at(n, c) = sums[0] / size;
          b.at(n, c) = sums[1] / size;
        }
      }
    }
  });
}

}  // namespace fourfold::kernels::cpu
