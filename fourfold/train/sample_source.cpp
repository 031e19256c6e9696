// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/sample_source.hpp"

#include <bit>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "fourfold/base/check.hpp"

namespace fourfold::train {

namespace {

/// Tokens, and for each of them the one that follows it.
class TokenSource final : public SampleSource {
 public:
  explicit TokenSource(data::Samples samples) : samples_(std::move(samples)) {}

  std::int64_t samples() const override { return samples_.windows(); }
  void read(std::int64_t sample, std::span<const Tensor> data) const override {
    samples_.read(sample, data[0].data_ptr<std::int64_t>(), data[1].data_ptr<std::int64_t>());
  }
  void read_in_order(std::int64_t index, std::span<const Tensor> data) const override {
    samples_.read_window(index, data[0].data_ptr<std::int64_t>(), data[1].data_ptr<std::int64_t>());
  }
  void add_to(data::Digest& digest) const override {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(2 * samples_.context()));
    digest.add(static_cast<std::uint64_t>(samples()));
    for (const std::int64_t window : {std::int64_t{0}, samples() - 1}) {
      samples_.read_window(window, tokens.data(), tokens.data() + samples_.context());
      for (const std::int64_t token : tokens) digest.add(static_cast<std::uint64_t>(token));
    }
  }

 private:
  data::Samples samples_;
};

class ImageSource final : public SampleSource {
 public:
  explicit ImageSource(data::ImageSamples samples) : samples_(std::move(samples)) {}

  std::int64_t samples() const override { return samples_.images().count(); }
  void read(std::int64_t sample, std::span<const Tensor> data) const override {
    write(data[0], [&](float* pixels) { samples_.read(sample, pixels); });
  }
  void read_in_order(std::int64_t index, std::span<const Tensor> data) const override {
    write(data[0], [&](float* pixels) { samples_.images().read(index, false, pixels); });
  }
  void add_to(data::Digest& digest) const override {
    std::vector<float> pixels(static_cast<std::size_t>(samples_.images().values()));
    digest.add(static_cast<std::uint64_t>(samples()));
    for (const std::int64_t index : {std::int64_t{0}, samples() - 1}) {
      samples_.images().read(index, false, pixels.data());
      for (const float pixel : pixels) digest.add(std::bit_cast<std::uint32_t>(pixel));
    }
  }

 private:
  /// Images are read as float, and a model may compute in double.
  template <class Read>
  void write(const Tensor& to, const Read& read) const {
    FOURFOLD_CHECK(to.is_contiguous());
    FOURFOLD_CHECK_EQ(to.numel(), samples_.images().values());
    if (to.scalar_type() == at::kFloat) return read(to.data_ptr<float>());
    const Tensor pixels = at::empty(to.sizes(), at::kFloat);
    read(pixels.data_ptr<float>());
    to.copy_(pixels);
  }

  data::ImageSamples samples_;
};

}  // namespace

SampleSourcePtr token_source(data::Samples samples) {
  return std::make_shared<TokenSource>(std::move(samples));
}

SampleSourcePtr image_source(data::ImageSamples samples) {
  return std::make_shared<ImageSource>(std::move(samples));
}

}  // namespace fourfold::train
