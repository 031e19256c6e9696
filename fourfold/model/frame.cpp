// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/check.hpp"
#include "fourfold/kernels/vocabulary.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/model/transformer.hpp"
#include "fourfold/nn/summa.hpp"

namespace fourfold::model {

nn::TableSpec Frame::table_spec(const std::string& name) const {
  return {
      .name = name, .vocabulary = vocabulary, .width = width, .activations = execution.activations};
}

void Frame::check() const {
  const auto positive = [](const char* name, std::int64_t value) {
    if (value >= 1) return;
    throw ConfigError(concat("the model's ", name, " must be at least 1, not ", value));
  };
  positive("vocabulary", vocabulary);
  positive("width", width);
  positive("heads", heads);
  positive("layers", layers);
  positive("context", context);
  if (width % heads != 0) {
    throw ConfigError(concat("a width of ", width, " is not a multiple of ", heads, " heads"));
  }
  if (execution.product == nn::ProductKind::kSumma &&
      execution.activations != nn::Activations::kSharded) {
    throw ConfigError("SUMMA splits activations over all ranks: they cannot be replicated");
  }
}

std::string Frame::misfit(const grid::Sizes& sizes, std::int64_t samples,
                          std::int64_t positions) const {
  if (sizes.pipe > layers) {
    return concat(layers, " layers cannot be split over pipe=", sizes.pipe);
  }
  const bool summa = execution.product == nn::ProductKind::kSumma;
  std::string reason;
  if (summa) {
    reason = nn::square_misfit(sizes);
    if (reason.empty() && samples % (std::int64_t{sizes.data} * sizes.z * sizes.y) != 0) {
      reason = concat("with SUMMA a batch of ", samples,
                      " samples cannot be split over data=", sizes.data, " times z=", sizes.z,
                      " times y=", sizes.y);
    }
  }
  const nn::Batch batch{.samples = samples, .context = positions};
  if (reason.empty()) reason = nn::batch_misfit(sizes, batch, execution.activations);
  return reason;
}

nn::Spread Frame::between_blocks() const {
  return execution.activations == nn::Activations::kSharded ? nn::Spread::kRows
                                                            : nn::Spread::kCopies;
}

std::string TokenModel::sizes() const {
  return concat(frame().heads, " heads, width ", frame().width, ", ", frame().layers, " layers");
}

std::vector<std::pair<std::string, std::string>> TokenModel::traits() const {
  return {{"kind", std::string(kind())},
          {"heads", std::to_string(frame().heads)},
          {"layers", std::to_string(frame().layers)},
          {"tied", frame().tied ? "true" : "false"}};
}

std::vector<Tensor> TokenModel::empty_data(std::int64_t samples, c10::Device device) const {
  const auto options = at::TensorOptions(at::kLong).device(device);
  return {at::empty({samples, frame().context}, options),
          at::empty({samples, frame().context}, options)};
}

void TokenModel::check_data(const std::vector<Tensor>& data) const {
  for (const Tensor& tokens : data) kernels::check_tokens(tokens, frame().vocabulary);
}

}  // namespace fourfold::model
