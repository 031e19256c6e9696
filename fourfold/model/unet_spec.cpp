// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/unet_spec.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::model {

namespace {

void check_positive(const char* name, std::int64_t value) {
  if (value >= 1) return;
  throw ConfigError(concat("the model's ", name, " must be at least 1, not ", value));
}

/// Says which images the network has, the largest first.
std::vector<std::int64_t> image_sizes(const UNetSpec& spec) {
  std::vector<std::int64_t> sizes;
  for (std::size_t level = 0; level < spec.multipliers.size(); ++level) {
    sizes.push_back(spec.image >> level);
  }
  return sizes;
}

void check_images(const UNetSpec& spec) {
  const std::size_t halvings = spec.multipliers.size() - 1;
  if (halvings > 30 || spec.image % (std::int64_t{1} << halvings) != 0) {
    throw ConfigError(concat("images of ", spec.image, " × ", spec.image,
                             " pixels cannot be halved ", halvings,
                             " times: model.image must be a multiple of 2 to the power of the "
                             "levels (model.multipliers) less one"));
  }
  const std::vector<std::int64_t> sizes = image_sizes(spec);
  for (const std::int64_t size : spec.attention) {
    if (std::find(sizes.begin(), sizes.end(), size) != sizes.end()) continue;
    throw ConfigError(concat("model.attention names images of size ", size,
                             ", but the network has those of ", join(sizes, ", ")));
  }
}

void check_channels(const UNetSpec& spec) {
  if (spec.channels % 2 != 0) {
    throw ConfigError(concat("model.channels must be even, since times become sines and cosines, ",
                             "and it is ", spec.channels));
  }
  const UNetPlan plan(spec);
  for (const UNetBlockSpec& block : plan.blocks()) {
    const bool normalises = block.kind == UNetBlockSpec::Kind::kResidual ||
                            block.kind == UNetBlockSpec::Kind::kAttention;
    for (const std::int64_t channels : {block.in_channels(), block.output.channels}) {
      if (!normalises || channels % spec.groups == 0) continue;
      throw ConfigError(concat(block.name, ": ", channels, " channels cannot be divided into ",
                               spec.groups, " groups; choose model.groups that divides them"));
    }
    if (block.kind == UNetBlockSpec::Kind::kAttention && block.output.channels % spec.heads != 0) {
      throw ConfigError(concat(block.name, ": ", block.output.channels,
                               " channels are not a multiple of ", spec.heads,
                               " heads; choose model.heads that divides them"));
    }
  }
}

}  // namespace

void UNetSpec::check() const {
  check_positive("image", image);
  check_positive("colours", colours);
  check_positive("channels", channels);
  check_positive("blocks", blocks);
  check_positive("heads", heads);
  check_positive("groups", groups);
  if (multipliers.empty()) throw ConfigError("model.multipliers must name at least one level");
  for (const std::int64_t one : multipliers) check_positive("multipliers", one);
  if (!(dropout >= 0 && dropout < 1)) {
    throw ConfigError(concat("a dropout of ", dropout, " is not between 0 and 1"));
  }
  check_images(*this);
  check_channels(*this);
  if (execution.product == nn::ProductKind::kSumma) {
    throw ConfigError(
        "SUMMA multiplies matrices, and a U-Net convolves images: choose another "
        "parallel.strategy, for instance 4d");
  }
}

std::int64_t UNetBlockSpec::in_channels() const {
  std::int64_t sum = 0;
  for (const UNetImages& one : inputs) sum += one.channels;
  return sum;
}

// --- the plan

UNetPlan::UNetPlan(const UNetSpec& spec) {
  first_ = now_ = {spec.channels, spec.image, false};
  left_ = {now_};  // what the first convolution makes is left, too
  go_down(spec);
  add_residual("middle_block.0", now_.channels, false);
  add_attention("middle_block.1");
  add_residual("middle_block.2", now_.channels, false);
  go_up(spec);
}

void UNetPlan::go_down(const UNetSpec& spec) {
  int number = 1;  // input_blocks.0 is the first convolution
  for (std::size_t level = 0; level < spec.multipliers.size(); ++level) {
    const auto attends = std::count(spec.attention.begin(), spec.attention.end(), now_.size);
    for (std::int64_t i = 0; i < spec.blocks; ++i, ++number) {
      const std::string name = concat("input_blocks.", number);
      add_residual(name + ".0", spec.multipliers[level] * spec.channels, false);
      if (attends > 0) add_attention(name + ".1");
      leave();
    }
    if (level + 1 == spec.multipliers.size()) return;
    add_resampling(UNetBlockSpec::Kind::kDown, concat("input_blocks.", number++, ".0.op"));
    leave();
  }
}

void UNetPlan::go_up(const UNetSpec& spec) {
  int number = 0;
  for (std::size_t level = spec.multipliers.size(); level-- > 0;) {
    const auto attends = std::count(spec.attention.begin(), spec.attention.end(), now_.size);
    for (std::int64_t i = 0; i <= spec.blocks; ++i, ++number) {
      const std::string name = concat("output_blocks.", number);
      add_residual(name + ".0", spec.multipliers[level] * spec.channels, true);
      if (attends > 0) add_attention(name + ".1");
      if (level == 0 || i < spec.blocks) continue;
      add_resampling(UNetBlockSpec::Kind::kUp, name + (attends > 0 ? ".2.conv" : ".1.conv"));
    }
  }
}

void UNetPlan::add_residual(const std::string& name, std::int64_t out, bool takes) {
  UNetBlockSpec block{.kind = UNetBlockSpec::Kind::kResidual,
                      .name = name,
                      .inputs = {now_},
                      .output = {out, now_.size, now_.transposed}};
  if (takes) {
    block.inputs.push_back(left_.back());
    left_.pop_back();
  }
  now_ = block.output;
  blocks_.push_back(std::move(block));
}

void UNetPlan::add_attention(const std::string& name) {
  blocks_.push_back(
      {.kind = UNetBlockSpec::Kind::kAttention, .name = name, .inputs = {now_}, .output = now_});
}

/// The only layer of such a block flips the order of axes.
void UNetPlan::add_resampling(UNetBlockSpec::Kind kind, const std::string& name) {
  const bool down = kind == UNetBlockSpec::Kind::kDown;
  const UNetImages next{now_.channels, down ? now_.size / 2 : 2 * now_.size, !now_.transposed};
  blocks_.push_back({.kind = kind, .name = name, .inputs = {now_}, .output = next});
  now_ = next;
}

void UNetPlan::leave() {
  blocks_.back().leaves = true;
  left_.push_back(now_);
}

UNetHandover UNetPlan::before(std::int64_t block) const {
  UNetHandover state{.images = first_, .left = {first_}, .is_left = true};
  const auto next = blocks_.begin() + block;
  for (auto one = blocks_.begin(); one != next; ++one) {
    if (one->takes_left()) state.left.pop_back();
    state.images = one->output;
    state.is_left = one->leaves;
    if (one->leaves) state.left.push_back(one->output);
  }
  state.embedding = std::any_of(next, blocks_.end(), [](const UNetBlockSpec& one) {
    return one.kind == UNetBlockSpec::Kind::kResidual;
  });
  return state;
}

}  // namespace fourfold::model
