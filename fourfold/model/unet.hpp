// The U-Net of improved diffusion, on any grid: residual blocks and attention on images of several
// sizes, with a time embedding, trained to predict the noise of images. Its parameters have the
// names that they have in improved-diffusion's files, but not the shapes (unet_files.cpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fourfold/model/unet_ends.hpp"

namespace fourfold::model {

/// The description of a U-Net. Its samples are images {pixels, colours}, with values from -1 to 1.
class UNetModel final : public Model {
 public:
  /// Throws ConfigError for sizes that no U-Net can have.
  explicit UNetModel(const UNetSpec& spec);

  const UNetSpec& spec() const { return spec_; }
  const UNetPlan& plan() const { return plan_; }

  std::string_view kind() const override { return "unet"; }
  std::string sizes() const override;
  const Execution& execution() const override { return spec_.execution; }
  std::vector<std::pair<std::string, std::string>> traits() const override;

  std::int64_t blocks() const override { return static_cast<std::int64_t>(plan_.blocks().size()); }
  bool alike() const override { return false; }
  bool swaps_channels() const override { return true; }
  /// Throws InvariantError: no block is like another one.
  ModelPtr with_blocks(std::int64_t blocks) const override;

  std::string misfit(const grid::Sizes& sizes, std::int64_t samples) const override;
  std::unique_ptr<Part> make(const Mesh& mesh, std::int64_t samples,
                             const Stage& stage) const override;

  nn::Batch batch(std::int64_t samples) const override {
    return {.samples = samples, .context = spec_.pixels()};
  }
  std::vector<Tensor> empty_data(std::int64_t samples, c10::Device device) const override;
  std::int64_t terms(std::int64_t samples) const override {
    return samples * spec_.pixels() * spec_.colours;
  }

  FileTensor file_tensor(const std::string& name, const grid::Shape& shape) const override;
  std::string block_prefix(std::int64_t block) const override;

 private:
  UNetSpec spec_;
  UNetPlan plan_;
};

/// A U-Net, or a stage of it. Stages hand on the images, the time embedding and the images that
/// blocks of the way down have left for those of the way up.
class UNet final : public Part {
 public:
  /// `samples` is the number of images of a forward pass over the whole grid. Throws ConfigError
  /// that says what to change when the model does not fit the grid.
  UNet(const Mesh& mesh, const UNetSpec& spec, std::int64_t samples, const Stage& stage);
  /// Makes the whole model.
  UNet(const Mesh& mesh, const UNetSpec& spec, std::int64_t samples);

  /// Images with noise, {samples, pixels, colours} of this rank's data and z, and for each sample
  /// the number of its diffusion step, in float or double.
  struct Noised {
    Tensor images;
    Tensor times;
  };
  /// What the network makes of images with noise. `hidden` and the result are as those of `run`,
  /// except that the last stage returns the prediction, {samples, pixels, outputs} in the type of
  /// computation, the same on all ranks along x and y; its first channels are the noise. Only the
  /// first stage reads the images.
  std::vector<Tensor> predict(const std::vector<Tensor>& hidden, const Noised& noised,
                              const nn::Batch& batch, nn::Pass& pass) const;

  std::vector<Tensor> run(const std::vector<Tensor>& hidden, const Input& input, std::int64_t terms,
                          nn::Pass& pass) const override;
  int parts_of(const nn::Batch& batch) const override;
  std::vector<Tensor> empty_hidden(const nn::Batch& part, End end) const override;

  std::vector<nn::Parameters> groups() const override;
  tensor::GatherOrder gatherables() const override;
  bool counts_loss() const override;
  double block_flops(std::int64_t block, const nn::Batch& batch) const override;

  const UNetSpec& spec() const { return spec_; }

 private:
  /// What is between two blocks.
  struct State {
    Tensor images;
    Tensor embedding;
    std::vector<Tensor> left;  ///< for blocks of the way up

    UNetBlock::Inputs inputs_of(const UNetBlockSpec& block);
    void put(const UNetBlockSpec& block, Tensor output);
  };
  /// A part of a batch.
  struct Share {
    nn::Batch batch;
    Tensor data;  ///< the images, where the stage reads them
  };

  /// Throws ConfigError unless a batch of this size can be split over the ranks.
  void check(const nn::Batch& batch) const;
  std::vector<Share> split(const nn::Batch& batch, const Tensor& data) const;
  /// Says which samples the rows of images belong to.
  void show_images(const Tensor& images, const nn::Batch& batch) const;
  /// Draws times and noise.
  Noised add_noise(const Share& share, bool training) const;
  nn::Flow<State> enter(Noised noised, nn::Pass& pass) const;
  nn::Flow<State> through_blocks(State state, nn::Batch batch, nn::Pass& pass) const;
  nn::Flow<Tensor> leave(Tensor images, nn::Batch batch, nn::Pass& pass) const;
  nn::Flow<Tensor> loss_of(Tensor images, Share share, std::int64_t terms, nn::Pass& pass) const;
  nn::Flow<State> predict_flow(State state, Noised noised, nn::Batch batch, nn::Pass& pass) const;
  nn::Flow<State> stage_flow(State state, Share share, std::int64_t terms, nn::Pass& pass) const;
  std::vector<State> checkpointed(std::vector<State> states, const std::vector<Share>& shares,
                                  std::int64_t terms, nn::Pass& pass) const;

  /// What goes to the next stage, and what has come from the one before.
  void hand_over(const State& state, std::vector<Tensor>& to) const;
  State take_over(std::vector<Tensor>::const_iterator& next) const;
  /// The same for all parts of a batch.
  std::vector<State> take_over(const std::vector<Tensor>& hidden, std::size_t parts) const;
  std::vector<Tensor> hand_over(const std::vector<State>& states) const;

  UNetSpec spec_;
  UNetHandover before_;  // what this stage gets
  UNetHandover after_;   // what the next one gets
  Noise noise_;
  std::unique_ptr<UNetEntry> entry_;  // of the first stage
  std::vector<std::unique_ptr<UNetBlock>> blocks_;
  std::unique_ptr<UNetExit> exit_;  // of the last stage
};

}  // namespace fourfold::model
