// One forward and backward pass of some layers on a mesh, held against whole tensors of one
// process, against the closed forms of what is sent, and against a dry run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "fourfold/comm/recorder.hpp"

#include "tests/nn/images.hpp"

namespace fourfold::test {

/// The payload of operations, in elements, by operation and axes.
class Payload {
 public:
  explicit Payload(const tensor::Mesh& mesh) : mesh_(&mesh) {}

  /// Nothing where the axes have one rank.
  void add(schedule::Op op, const grid::Axes& axes, std::int64_t elements);
  /// A parameter: a use sees `rows` × `columns` of it. It is gathered `times` times, and its
  /// gradient is summed once.
  void add_parameter(std::int64_t rows, std::int64_t columns, const grid::Axes& gathered,
                     const grid::Axes& summed, int times = 1);
  /// A transfer to another rank, and one from another rank, over x and y.
  void add_swap(std::int64_t elements);

  /// Where the counters of a rank differ from this, for people; empty if they do not.
  std::string difference(const comm::Counts& counts, std::int64_t element_bytes) const;

  const tensor::Mesh& mesh() const { return *mesh_; }

 private:
  const tensor::Mesh* mesh_;
  std::map<std::pair<schedule::Op, std::string>, std::int64_t> elements_;
};

/// Layers are run by a function that names their inputs, parameters and outputs. Wholes are tensors
/// of one process with their gradients. On a dry mesh the same function makes meta tensors.
class Trial {
 public:
  Trial(const tensor::Mesh& mesh, const nn::Precision& precision);

  const tensor::Mesh& mesh() const { return *mesh_; }
  const nn::Precision& precision() const { return precision_; }
  std::int64_t samples() const;  ///< of this rank, of kSamples

  /// This rank's part; it requires a gradient if the whole does.
  Tensor input(const Tensor& whole, const grid::Layout& layout, const std::string& name = "input");
  /// Gives the parameter its values.
  void parameter(const nn::ParameterPtr& parameter, const Tensor& whole);
  /// A pass without vectors, and one in which those of the layer are gathered.
  const nn::Pass& pass() { return passes_.emplace_back(in_flight_); }
  const nn::Pass& pass(const nn::Layer& layer);
  /// The output must have these values, and gets this gradient.
  void output(const Tensor& output, const Tensor& whole, const Tensor& upstream,
              const grid::Layout& layout, const std::string& name = "output");

  /// Runs the backward pass.
  void backward();
  /// Compares everything.
  void compare(Worst& worst, const std::string& name);

  static constexpr std::int64_t kSamples = 8;

 private:
  struct Item {
    Tensor tensor;
    Tensor whole;
    Tensor upstream;
    grid::Layout layout;
    std::string name;
  };

  Tensor part(const Tensor& whole, const grid::Layout& layout) const;

  const tensor::Mesh* mesh_;
  nn::Precision precision_;
  tensor::InFlight in_flight_;
  std::list<nn::Vectors> vectors_;
  std::list<nn::Pass> passes_;
  std::vector<Item> inputs_;
  std::vector<Item> outputs_;
  std::vector<std::pair<nn::ParameterPtr, Tensor>> parameters_;
};

/// Makes layers, which must live until the backward pass has ended: the result owns them.
using Layers = std::function<std::shared_ptr<void>(Trial&)>;
/// What one pass forward and backward sends.
using Sends = std::function<void(Payload&)>;

/// A type of numbers, and the error that is allowed in it.
struct Accuracy {
  nn::Precision precision;
  double tolerance;
};
/// float64, float32 and bf16.
std::vector<Accuracy> accuracies();

/// Runs the layers on this rank, in earnest and dry. Errors are seen by `worst` in units of the
/// tolerance. So are differences from `sends`, if given and in float64, and between both runs.
void see_trial(Worst& worst, const tensor::Mesh& mesh, const Accuracy& accuracy,
               const Layers& layers, const Sends& sends, const std::string& name);

/// Runs `body` with ranks as threads, and expects that the worst that it has seen is at most 1.
void expect_on_grid(const grid::Sizes& sizes,
                    const std::function<void(Worst&, const tensor::Mesh&)>& body);

/// Calls `body` for both directions, and for sharded and replicated activations.
void for_both(const std::function<void(bool transposed, nn::Activations activations,
                                       const std::string& name)>& body);

}  // namespace fourfold::test
