// Everything that takes time is in the schedule: what libtorch does to a large tensor in a step is
// reported as compute before the rank communicates again.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include "tests/model/reference.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

/// Whether libtorch may add up the gradients of two uses of a tensor by that operation. Newer
/// versions do it in place where they can.
bool adds_gradients(std::string_view name) {
  return name == "aten::add" || (TORCH_VERSION_MAJOR >= 2 && name == "aten::add_");
}

/// What the calling thread has done since its last report.
class Unreported final : public comm::Observer {
 public:
  /// Operations with results of at least that many bytes are watched.
  explicit Unreported(std::size_t large)
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(
                [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
                  return nullptr;
                },
                [](const at::RecordFunction& function, at::ObserverContext*) {
                  if (current_ != nullptr) current_->done(function);
                })
                .needsOutputs(true)
                .scopes({at::RecordScope::FUNCTION}))),
        large_(large) {
    current_ = this;
  }
  ~Unreported() override {
    current_ = nullptr;
    at::removeCallback(handle_);
  }

  void computed(const comm::Computed& what) override {
    open_.clear();
    // libtorch adds up the gradients of the two uses of a hidden state later, between two nodes.
    if (what.name == "residual dI") ++announced_;
  }
  void issued(const comm::Observed&, std::string_view layer) override { close(layer); }
  void awaited(std::int64_t) override { close("a wait"); }

  /// The operations after which the rank has communicated without a report, and where.
  const std::set<std::string>& found() const { return found_; }
  /// The operations that were watched.
  const std::set<std::string>& seen() const { return seen_; }

 private:
  void done(const at::RecordFunction& function) {
    static const std::set<std::string> kTouch = {
        "aten::add",  "aten::add_",  "aten::sub",   "aten::mul",      "aten::mul_",
        "aten::div_", "aten::copy_", "aten::clone", "aten::_to_copy", "aten::cat",
        "aten::sum",  "aten::fill_", "aten::zero_", "aten::square",   "aten::mm"};
    if (!kTouch.contains(function.name())) return;
    for (const c10::IValue& output : function.outputs()) {
      if (!output.isTensor() || output.toTensor().nbytes() < large_) continue;
      seen_.insert(function.name());
      if (adds_gradients(function.name()) && announced_ > 0) {
        --announced_;
      } else {
        open_.insert(function.name());
      }
    }
  }
  void close(std::string_view where) {
    for (const std::string& name : open_) found_.insert(concat(name, " before ", where));
    open_.clear();
  }

  static inline thread_local Unreported* current_ = nullptr;

  at::CallbackHandle handle_;
  std::size_t large_;
  int announced_ = 0;  // sums of gradients that were reported in advance
  std::set<std::string> open_;
  std::set<std::string> found_;
  std::set<std::string> seen_;
};

void expect_reports(const grid::Sizes& sizes, const GptRecipe& recipe) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid, recipe.overlap);
    train::Trainer trainer(mesh, recipe);
    trainer.step(1, small_samples());
    // Half of the rank's part of a hidden state: vectors are smaller, also in float beside bf16.
    const std::int64_t rows = recipe.micro_batch * recipe.model.context;
    const auto elements = static_cast<std::size_t>(rows * recipe.model.width / grid.ranks() / 2);
    Unreported unreported(elements * c10::elementSize(recipe.model.execution.precision.compute));
    {
      const comm::Observation observation = world.observe(unreported);
      trainer.step(2, small_samples());
    }
    expect_on_all_ranks(world, unreported.found().empty(),
                        concat(grid, ": ", join(unreported.found(), "; ")));
    expect_on_all_ranks(world, !unreported.seen().empty(), "nothing was watched");
    trainer.finish();
  });
}

TEST(Reported, IsEverythingThatLibtorchDoesToLargeTensors) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{}, grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.y = 2, .z = 2},
        grid::Sizes{.z = 2, .data = 2}, grid::Sizes{.data = 2, .pipe = 2}}) {
    for (const bool checkpoint : {false, true}) {
      GptRecipe recipe = small_recipe(true, 8);
      recipe.model.execution.checkpoint = checkpoint;
      if (checkpoint) recipe.model.execution.precision = nn::Precision::bf16();
      if (checkpoint && sizes.pipe == 1) recipe.optimizer.zero = optim::Zero::kGradients;
      expect_reports(sizes, recipe);
    }
  }
}

TEST(Reported, SoItIsWithSumma) {
  GptRecipe recipe = small_recipe(true, 8);
  recipe.model.execution.product = nn::ProductKind::kSumma;
  expect_reports({.x = 2, .y = 2}, recipe);
  recipe.model.execution.precision = nn::Precision::bf16();
  expect_reports({.x = 2, .y = 2, .z = 2}, recipe);
}

}  // namespace
}  // namespace fourfold::test
