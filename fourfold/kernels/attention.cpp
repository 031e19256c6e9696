// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/attention.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

void check_heads(const AttentionShape& shape, const Tensor& out) {
  FOURFOLD_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, shape.kv_heads,
                 " heads of keys cannot serve ", shape.heads, " heads of queries");
  FOURFOLD_CHECK(shape.queries <= shape.keys, "there are more queries than keys");
  FOURFOLD_CHECK(out.scalar_type() == at::kDouble || out.scalar_type() == at::kFloat);
}

}  // namespace

void attention_forward(const AttentionShape& shape, const QueryKeyValue& qkv, Tensor& out,
                       Tensor& logsum) {
  check_heads(shape, out);
  functions_of(out).attention_forward(shape, qkv, out, logsum);
}

void attention_backward(const AttentionShape& shape, const QueryKeyValue& qkv, const Tensor& out,
                        const Tensor& logsum, const Tensor& dout, const QueryKeyValue& gradients) {
  check_heads(shape, out);
  FOURFOLD_CHECK_EQ(shape.queries, shape.keys, "the gradient of attention needs all queries");
  functions_of(out).attention_backward(shape, qkv, out, logsum, dout, gradients);
}

}  // namespace fourfold::kernels
