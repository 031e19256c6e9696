// Small helps for autograd functions of layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "fourfold/tensor/torch.hpp"

namespace fourfold::nn {

using tensor::AutogradContext;
using tensor::variable_list;

/// Remembers the layer for the backward pass. Layers outlive the graphs that they are part of.
template <class Layer>
void remember(AutogradContext* context, const Layer& layer) {
  context->saved_data["layer"] = reinterpret_cast<std::int64_t>(&layer);
}

template <class Layer>
const Layer& remembered(AutogradContext* context) {
  return *reinterpret_cast<const Layer*>(context->saved_data["layer"].toInt());
}

/// A value of ours that the graph owns.
template <class T>
struct Holder : torch::CustomClassHolder {
  explicit Holder(T held) : value(std::move(held)) {}
  T value;
};

/// Keeps a value for the backward pass.
template <class T>
void keep(AutogradContext* context, T value) {
  context->saved_data["kept"] =
      c10::IValue::make_capsule(c10::make_intrusive<Holder<T>>(std::move(value)));
}

/// Valid as long as the context is.
template <class T>
const T& kept(AutogradContext* context) {
  const auto holder = context->saved_data["kept"].toCapsule();
  return static_cast<const Holder<T>&>(*holder).value;
}

}  // namespace fourfold::nn
