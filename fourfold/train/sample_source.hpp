// Where the samples of a run come from: tokens or images, behind one interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "fourfold/data/image_samples.hpp"
#include "fourfold/data/mix.hpp"
#include "fourfold/data/samples.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::train {

using at::Tensor;

/// Samples as a model reads them: one tensor for each kind of its data (Model::empty_data), without
/// the dimension of samples. A sample depends only on its number, the data and the seed.
class SampleSource {
 public:
  SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  virtual ~SampleSource() = default;

  /// How many different ones there are.
  virtual std::int64_t samples() const = 0;
  /// Writes sample 0, 1, 2, ... of training: all of them in a random order, then all in another
  /// one, without end.
  virtual void read(std::int64_t sample, std::span<const Tensor> data) const = 0;
  /// Writes a sample by its place in the data, from 0 to samples() - 1, for validation.
  virtual void read_in_order(std::int64_t index, std::span<const Tensor> data) const = 0;
  /// Adds the number of samples, the first and the last of them.
  virtual void add_to(data::Digest& digest) const = 0;
};

using SampleSourcePtr = std::shared_ptr<const SampleSource>;

SampleSourcePtr token_source(data::Samples samples);
SampleSourcePtr image_source(data::ImageSamples samples);

}  // namespace fourfold::train
