// Nodes of the graph: what they compute, in which order, and when they free what they keep.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/node.hpp"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/tensor/node_watch.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using tensor::node;
using tensor::Saved;
using tensor::variable_list;

Tensor leaf(double value = 3) {
  return at::full({2}, value, at::kDouble).set_requires_grad(true);
}

double first(const Tensor& tensor) {
  return tensor[0].item<double>();
}

/// What an InvariantError says, or nothing.
template <class Body>
std::string complaint(const Body& body) {
  try {
    body();
  } catch (const InvariantError& error) {
    return error.what();
  }
  return {};
}

/// Multiplies by a number; `held` is captured by the backward function.
Tensor times(const Tensor& input, double factor, std::shared_ptr<int> held = nullptr) {
  return node(
      {input}, [&](const variable_list& in) -> variable_list { return {in[0] * factor}; },
      [factor, held](const variable_list& gradients) -> variable_list {
        return {gradients[0] * factor};
      })[0];
}

TEST(Node, ComputesForwardAndBackward) {
  const Tensor a = leaf(2);
  const Tensor b = leaf(5);
  const Tensor product = node(
      {a, b}, [](const variable_list& in) -> variable_list { return {in[0] * in[1]}; },
      [a = Saved(a), b = Saved(b)](const variable_list& g) -> variable_list {
        return {g[0] * b.get(), g[0] * a.get()};
      })[0];
  EXPECT_EQ(first(product), 10);
  times(product, 7).sum().backward();
  EXPECT_EQ(first(a.grad()), 35);
  EXPECT_EQ(first(b.grad()), 14);
}

TEST(Node, RunsForwardWithoutAGraph) {
  const Tensor a = leaf();
  bool graph = true;
  node(
      {a},
      [&](const variable_list& in) -> variable_list {
        graph = c10::GradMode::is_enabled() || (in[0] * 2).requires_grad();
        return {in[0] * 2};
      },
      [](const variable_list& g) { return g; });
  EXPECT_FALSE(graph);
  EXPECT_TRUE(c10::GradMode::is_enabled());
}

TEST(Node, GivesZerosForResultsThatWereNotUsed) {
  const Tensor a = leaf();
  const variable_list two = node(
      {a},
      [](const variable_list& in) -> variable_list {
        return {in[0] * 2, at::ones({3})};
      },
      [](const variable_list& g) -> variable_list {
        EXPECT_EQ(g[1].sizes().vec(), std::vector<std::int64_t>{3});
        EXPECT_EQ(g[1].sum().item<double>(), 0);
        return {g[0] * 2};
      });
  two[0].sum().backward();
  EXPECT_EQ(first(a.grad()), 2);
}

TEST(Node, TakesUndefinedGradientsAndInputs) {
  const Tensor a = leaf();
  const Tensor b = leaf();
  const Tensor out = node(
      {a, Tensor(), b}, [](const variable_list& in) -> variable_list { return {in[0] + in[2]}; },
      [](const variable_list& g) -> variable_list {
        return {Tensor(), Tensor(), g[0]};
      })[0];
  out.sum().backward();
  EXPECT_FALSE(a.grad().defined());
  EXPECT_EQ(first(b.grad()), 1);
}

TEST(Node, IsMadeIfAnyInputNeedsAGradient) {
  const Tensor b = leaf();
  const Tensor out = node(
      {leaf().detach(), b},
      [](const variable_list& in) -> variable_list { return {in[0] + in[1]}; },
      [](const variable_list& g) -> variable_list {
        return {Tensor(), g[0] * 5};
      })[0];
  out.sum().backward();
  EXPECT_EQ(first(b.grad()), 5);
}

/// The backward function of a node is differentiable where a graph of the gradient is wanted.
TEST(Node, GradientsMayHaveAGraph) {
  const Tensor a = leaf();
  const Tensor upstream = leaf(1);
  const Tensor out = times(a, 3);
  const variable_list gradients =
      torch::autograd::grad({out}, {a}, {upstream}, /*retain_graph=*/true, /*create_graph=*/true);
  ASSERT_TRUE(gradients[0].requires_grad());
  gradients[0].sum().backward();
  EXPECT_EQ(first(upstream.grad()), 3);
}

TEST(Node, WantsAGradientForEachInput) {
  const Tensor out = node(
      {leaf(), leaf()}, [](const variable_list& in) -> variable_list { return {in[0] + in[1]}; },
      [](const variable_list& g) -> variable_list { return {g[0]}; })[0];
  EXPECT_NE(complaint([&] { out.sum().backward(); }).find("a gradient for each input"),
            std::string::npos);
}

TEST(Node, IsNotMadeWhereNoGradientIsNeeded) {
  const auto run = [](const Tensor& input) {
    std::weak_ptr<int> watched;
    bool freed_before_forward = false;
    {
      auto kept = std::make_shared<int>();
      watched = kept;
      const Tensor out = node(
          {input},
          [&](const variable_list& in) -> variable_list {
            freed_before_forward = watched.expired();
            return {in[0]};
          },
          [kept = std::move(kept)](const variable_list& g) { return g; })[0];
      EXPECT_FALSE(out.requires_grad());
    }
    return freed_before_forward;
  };
  EXPECT_TRUE(run(leaf().detach()));
  const at::NoGradGuard no_graph;
  EXPECT_TRUE(run(leaf()));
}

/// As the backward pass proceeds, what a node has captured is freed before the next node runs.
TEST(Node, FreesWhatItKeepsAsTheBackwardPassProceeds) {
  const Tensor a = leaf();
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> watched = held;
  bool freed = false;
  const Tensor early = node(
      {a}, [](const variable_list& in) -> variable_list { return {in[0] * 2}; },
      [&](const variable_list& g) -> variable_list {
        freed = watched.expired();
        return {g[0] * 2};
      })[0];
  const Tensor late = times(early, 3, std::move(held));
  EXPECT_FALSE(watched.expired());
  late.sum().backward();
  EXPECT_TRUE(freed);
}

TEST(Node, FreesWhatItKeepsWithTheGraph) {
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> watched = held;
  {
    const Tensor out = times(leaf(), 3, std::move(held));
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

/// A backward function that captures its own result does not keep the graph alive.
TEST(Node, MayKeepItsResult) {
  struct Call {
    Tensor out;
  };
  std::weak_ptr<Call> watched;
  const Tensor a = leaf();
  {
    const auto call = std::make_shared<Call>();
    watched = call;
    const Tensor out = node(
        {a},
        [&](const variable_list& in) -> variable_list {
          call->out = in[0].exp();
          return {call->out};
        },
        [call](const variable_list& g) -> variable_list { return {g[0] * call->out}; })[0];
    EXPECT_TRUE(out.is_alias_of(call->out));
    EXPECT_FALSE(call->out.requires_grad());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Node, MayReturnItsInput) {
  const Tensor a = leaf();
  const Tensor out = node(
      {a}, [](const variable_list& in) { return in; },
      [](const variable_list& g) -> variable_list { return {g[0] * 4}; })[0];
  EXPECT_TRUE(out.is_alias_of(a));
  out.sum().backward();
  EXPECT_EQ(first(a.grad()), 4);
  EXPECT_TRUE(a.is_leaf());
}

TEST(Node, ASecondBackwardPassSaysWhatIsWrong) {
  const Tensor loss = times(leaf(), 3);
  const Tensor gradient = at::ones({2}, at::kDouble);
  loss.backward(gradient);
  EXPECT_NE(complaint([&] { loss.backward(gradient); }).find("a second backward pass"),
            std::string::npos);
}

TEST(Node, ARetainedGraphRunsTwice) {
  const Tensor a = leaf();
  const Tensor out = times(a, 3);
  const Tensor gradient = at::ones({2}, at::kDouble);
  out.backward(gradient, /*retain_graph=*/true);
  out.backward(gradient);
  EXPECT_EQ(first(a.grad()), 6);
}

/// Two chains whose nodes were made in turns run backward in turns, the newest first.
TEST(Node, TheNewestRunsFirst) {
  std::string order;
  const auto step = [&order](const Tensor& input, char name) {
    return node(
        {input}, [](const variable_list& in) -> variable_list { return {in[0] * 2}; },
        [&order, name](const variable_list& g) -> variable_list {
          order += name;
          return {g[0] * 2};
        })[0];
  };
  Tensor left = leaf();
  Tensor right = leaf();
  left = step(left, 'a');
  right = step(right, 'b');
  left = step(left, 'c');
  right = step(right, 'd');
  (left + right).sum().backward();
  EXPECT_EQ(order, "dcba");
}

TEST(Node, LongGraphsAreDestroyedWithoutDeepRecursion) {
  Tensor out = leaf();
  for (int i = 0; i < 200'000; ++i) out = times(out, 1);
  out = Tensor();
}

TEST(Saved, CarriesNoGraph) {
  const Tensor doubled = leaf() * 2;
  EXPECT_FALSE(Saved(doubled).get().requires_grad());
  EXPECT_TRUE(Saved(doubled).get().is_alias_of(doubled));
}

/// Inference tensors do not count how often they are overwritten.
TEST(Saved, TakesInferenceTensors) {
  const c10::InferenceMode inference;
  const Tensor tensor = at::ones({2});
  EXPECT_TRUE(Saved(tensor).get().is_alias_of(tensor));
}

TEST(Saved, FindsOutThatItWasOverwritten) {
  const Tensor a = leaf();
  const Tensor doubled = a * 2;
  const Tensor out = node(
      {doubled}, [](const variable_list& in) -> variable_list { return {in[0].square()}; },
      [saved = Saved(doubled)](const variable_list& g) -> variable_list {
        return {g[0] * 2 * saved.get()};
      })[0];
  doubled.detach().zero_();
  EXPECT_NE(complaint([&] { out.sum().backward(); }).find("was overwritten"), std::string::npos);
}

/// Results share the version of what the forward function has kept.
TEST(Saved, FindsOutThatAResultWasOverwritten) {
  Saved kept;
  const Tensor out = node(
      {leaf()},
      [&](const variable_list& in) -> variable_list {
        const Tensor result = in[0] * 2;
        kept = Saved(result);
        return {result};
      },
      [](const variable_list& g) { return g; })[0];
  EXPECT_EQ(complaint([&] { kept.get(); }), "");
  out.detach().zero_();
  EXPECT_NE(complaint([&] { kept.get(); }).find("was overwritten"), std::string::npos);
}

/// Writes down what it sees.
class Notes final : public tensor::NodeWatch {
 public:
  Notes(std::string name, std::vector<std::string>& notes)
      : name_(std::move(name)), notes_(&notes) {}
  void results(std::string_view layer, const variable_list& results) override {
    notes_->push_back(concat(name_, " ", layer, " ", first(results[0])));
  }
  void gradients(std::string_view layer, const variable_list& gradients) override {
    notes_->push_back(concat(name_, " d ", layer, " ", first(gradients[0])));
  }
  void rows(const Tensor& tensor, std::int64_t first_row, std::int64_t rows) override {
    notes_->push_back(concat(name_, " rows ", first_row, " ", rows, " ", first(tensor)));
  }

 private:
  std::string name_;
  std::vector<std::string>* notes_;
};

TEST(Node, IsSeenByThoseWhoWatch) {
  const auto named = [](const Tensor& input) {
    return node(
        "fc", {input}, [](const variable_list& in) -> variable_list { return {in[0] * 2}; },
        [](const variable_list& g) -> variable_list { return {g[0] * 2}; })[0];
  };
  std::vector<std::string> notes;
  const Tensor before = named(leaf(1));
  {
    Notes outer("a", notes);
    Notes inner("b", notes);
    const Tensor out = named(times(leaf(3), 5));
    tensor::show_rows(out, 16, 8);
    out.sum().backward();
  }
  EXPECT_EQ(notes,
            (std::vector<std::string>{"a fc 30", "b fc 30", "a rows 16 8 30", "b rows 16 8 30",
                                      "a rows 16 8 1", "b rows 16 8 1", "a d fc 2", "b d fc 2"}));
  before.sum().backward();
  tensor::show_rows(before, 0, 1);
  EXPECT_EQ(notes.size(), 8U) << "nobody watches any more";
}

}  // namespace
}  // namespace fourfold::test
