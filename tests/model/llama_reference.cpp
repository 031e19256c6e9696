// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ATen.h>

#include "fourfold/base/text.hpp"

#include "tests/model/reference.hpp"

namespace fourfold::test {

namespace {

using model::LlamaSpec;

/// A Llama by its definition, with the weights of files of other programs: separate projections for
/// queries, keys and values, and for gate and up.
class Reference {
 public:
  Reference(const LlamaSpec& spec, const Weights& ours)
      : spec_(spec), size_(spec.width / spec.heads) {
    const model::LlamaModel model(spec);
    for (const auto& [name, value] : ours) {
      const model::FileTensor file = model.file_tensor(name, value.sizes().vec());
      std::int64_t first = 0;
      for (const model::FilePiece& piece : file.pieces) {
        weights_[piece.name] = rows_of(value, file, first, piece.rows());
        first += piece.rows();
      }
    }
  }

  Tensor logits(const Tensor& tokens) const {
    Tensor h = at::embedding(w("model.embed_tokens"), tokens);
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
      const std::string name = concat("model.layers.", i);
      h = h + attention(norm(h, name + ".input_layernorm"), name + ".self_attn");
      h = h + network(norm(h, name + ".post_attention_layernorm"), name + ".mlp");
    }
    return at::linear(norm(h, "model.norm"), w(spec_.tied ? "model.embed_tokens" : "lm_head"));
  }

 private:
  /// Rows [first, first + count) of the file's order, by differentiable operations.
  static Tensor rows_of(const Tensor& ours, const model::FileTensor& file, std::int64_t first,
                        std::int64_t count) {
    if (file.order.empty()) return ours.narrow(0, first, count);
    Tensor from = at::empty({count}, at::kLong);
    for (std::size_t i = 0; i < file.order.size(); ++i) {
      const std::int64_t place = file.order[i] - first;
      if (place >= 0 && place < count) {
        from.data_ptr<std::int64_t>()[place] = static_cast<std::int64_t>(i);
      }
    }
    return ours.index_select(0, from);
  }

  const Tensor& w(const std::string& name) const { return weights_.at(name + ".weight"); }

  Tensor norm(const Tensor& h, const std::string& name) const {
    return h * at::rsqrt(h.square().mean(-1, true) + spec_.epsilon) * w(name);
  }

  /// One number for each pair of columns of a head.
  Tensor frequencies() const {
    Tensor all = at::empty({size_ / 2}, at::kDouble);
    for (std::int64_t i = 0; i < size_ / 2; ++i) {
      double speed =
          std::pow(spec_.rotary.theta, -2.0 * static_cast<double>(i) / static_cast<double>(size_));
      if (const auto& s = spec_.rotary.scaling) {
        const double wavelength = 2 * M_PI / speed;
        const auto original = static_cast<double>(s->original_max_position_embeddings);
        const double smooth = (original / wavelength - s->low_freq_factor) /
                              (s->high_freq_factor - s->low_freq_factor);
        if (wavelength > original / s->low_freq_factor) {
          speed /= s->factor;
        } else if (wavelength >= original / s->high_freq_factor) {
          speed = (1 - smooth) * speed / s->factor + smooth * speed;
        }
      }
      all.data_ptr<double>()[i] = speed;
    }
    return all;
  }

  /// (samples, heads, context, size) -> the same, rotated by position.
  Tensor rotated(const Tensor& x) const {
    const Tensor positions = at::arange(x.size(2), at::kDouble);
    const Tensor half = at::outer(positions, frequencies());
    const Tensor angles = at::cat({half, half}, 1).to(x.scalar_type());
    const std::vector<Tensor> halves = x.chunk(2, -1);
    return x * angles.cos() + at::cat({-halves[1], halves[0]}, -1) * angles.sin();
  }

  Tensor attention(const Tensor& h, const std::string& name) const {
    const std::int64_t samples = h.size(0);
    const std::int64_t context = h.size(1);
    const auto heads = [&](const char* which, std::int64_t count) {
      return at::linear(h, w(name + which)).view({samples, context, count, size_}).transpose(1, 2);
    };
    const auto repeated = [&](const Tensor& kv) {
      return kv.repeat_interleave(spec_.heads / spec_.kv_heads, 1);
    };
    const Tensor q = rotated(heads(".q_proj", spec_.heads));
    const Tensor k = repeated(rotated(heads(".k_proj", spec_.kv_heads)));
    const Tensor v = repeated(heads(".v_proj", spec_.kv_heads));
    const Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(double(size_));
    const Tensor above = at::ones({context, context}, at::kBool).triu(1);
    const Tensor p = scores.masked_fill(above, -INFINITY).softmax(-1);
    const Tensor mixed = at::matmul(p, v).transpose(1, 2).reshape(h.sizes());
    return at::linear(mixed, w(name + ".o_proj"));
  }

  Tensor network(const Tensor& h, const std::string& name) const {
    const Tensor gate = at::silu(at::linear(h, w(name + ".gate_proj")));
    return at::linear(gate * at::linear(h, w(name + ".up_proj")), w(name + ".down_proj"));
  }

  const LlamaSpec& spec_;
  std::int64_t size_;
  Weights weights_;
};

}  // namespace

ReferenceResult run_reference(const LlamaSpec& spec, const Weights& weights, const Tensor& tokens,
                              const Tensor& targets) {
  const auto logits = [&](const Weights& leaves, const Tensor& in) {
    return Reference(spec, leaves).logits(in);
  };
  return run_reference(logits, weights, tokens, targets);
}

}  // namespace fourfold::test
