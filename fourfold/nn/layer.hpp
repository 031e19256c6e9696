// What a layer is to the rest of the program: a name, and the parameters that it declares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/nn/parameter.hpp"
#include "fourfold/tensor/node.hpp"

namespace fourfold::nn {

// What the forward pass of a layer is made of:
using tensor::node;
using tensor::placeholder;
using tensor::Saved;
using tensor::variable_list;

struct Batch;

/// A layer declares its parameters and the layers that it consists of, each once, in its
/// constructor. Everything that needs a list of them asks the layer: the optimizer, the order of
/// gathers, files, the count of flops. A layer must outlive the graphs that it is part of.
class Layer {
 public:
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  /// The beginning of its parameters' names: "h.3.mlp.c_fc".
  const std::string& name() const { return name_; }
  const Mesh& mesh() const { return *mesh_; }

  /// The parameters of the layer and of its parts, in the order in which they were declared.
  Parameters parameters() const;
  /// The parameters that are vectors. They are gathered together with those of other layers.
  Parameters vectors() const;
  /// The other parameters, each of which is gathered by itself.
  Parameters weights() const;

  /// The flops of the forward pass of a batch, over all ranks, by the usual count: two for each
  /// multiplication of a product and of attention, without regard to causality. Layers whose work
  /// is not counted have none. A layer that consists of others has the sum of theirs.
  virtual double flops(const Batch& batch) const;

 protected:
  Layer(const Mesh& mesh, std::string name) : mesh_(&mesh), name_(std::move(name)) {}

  /// Makes a parameter of this layer.
  ParameterPtr declare(ParameterSpec spec, const Precision& precision, std::uint64_t seed);
  /// Says that `part` is one of the layers that this one consists of. It must live as long as this
  /// layer.
  void consists_of(const Layer& part) { declared_.push_back({nullptr, &part}); }

  const Mesh* mesh_;

 private:
  /// A parameter or a layer.
  struct Item {
    ParameterPtr parameter;
    const Layer* part;
  };

  std::string name_;
  std::vector<Item> declared_;
};

}  // namespace fourfold::nn
