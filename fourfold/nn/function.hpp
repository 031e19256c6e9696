// Small helpers for autograd functions of layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "fourfold/tensor/torch.hpp"

namespace fourfold::nn {

using tensor::AutogradContext;
using tensor::variable_list;

/// Stores the layer for the backward pass. A layer must outlive the graphs that it is part of.
template <class Layer>
void remember(AutogradContext* context, const Layer& layer) {
  context->saved_data["layer"] = reinterpret_cast<std::int64_t>(&layer);
}

template <class Layer>
const Layer& remembered(AutogradContext* context) {
  return *reinterpret_cast<const Layer*>(context->saved_data["layer"].toInt());
}

/// Wraps a value of any type so that the graph owns it.
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

/// Returns the value that was kept. The reference is valid as long as the context.
template <class T>
const T& kept(AutogradContext* context) {
  const auto holder = context->saved_data["kept"].toCapsule();
  return static_cast<const Holder<T>&>(*holder).value;
}

}  // namespace fourfold::nn
