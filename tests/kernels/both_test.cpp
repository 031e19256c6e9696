// The code that GPUs run (kernels/both), compiled for the processor and run by threads, against the
// kernels of the processor. What runs here is every line but the launch and the sums of a block.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fourfold/kernels/adam_factors.hpp"
#include "fourfold/kernels/both/dropout.hpp"
#include "fourfold/kernels/both/norm_rows.hpp"
#include "fourfold/kernels/both/vocabulary.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/functions.hpp"

#include "tests/kernels/cases.hpp"
#include "tests/kernels/host_team.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using kernels::elements;
using kernels::Wide;
using kernels::both::Norm;

constexpr std::int64_t kRows = 11;
constexpr std::int64_t kWidth = 109;

/// Sums have another order here.
double tolerance_of(at::ScalarType type) {
  return type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 0x1p-7;
}

void expect_near(const Tensor& found, const Tensor& expected, at::ScalarType type,
                 const char* what) {
  EXPECT_LE(relative_error(found, expected), tolerance_of(type)) << what;
}

/// Calls body(T{}, type, threads) for every type and some sizes of teams, with more threads than
/// there are elements of a row and fewer.
template <class Body>
void in_every_type(const Body& body) {
  for (const int threads : {1, 3, 128}) {
    SCOPED_TRACE(threads);
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(c10::toString(type));
      at::manual_seed(5);
      kernels::dispatch(at::empty({0}, type), [&](auto zero) { body(zero, type, threads); });
    }
  }
}

Tensor random(at::IntArrayRef shape, at::ScalarType type) {
  return at::randn(shape, at::kDouble).to(type);
}

/// Rows, vectors and a place for every result of a norm.
struct NormData {
  explicit NormData(at::ScalarType t)
      : type(t),
        wide(kernels::statistics_type(t)),
        x(random({kRows, kWidth}, t)),
        dy(random({kRows, kWidth}, t)),
        scale(random({kWidth}, wide)),
        shift(random({kWidth}, wide)) {}

  Tensor numbers() const { return at::zeros({2, kRows}, wide); }
  Tensor vector() const { return at::zeros({kWidth}, wide); }
  Tensor rows() const { return at::zeros({kRows, kWidth}, type); }

  at::ScalarType type;
  at::ScalarType wide;
  Tensor x;
  Tensor dy;
  Tensor scale;
  Tensor shift;
};

/// The gradients of scale and shift, in parts of four rows.
template <class T>
void column_sums(const NormData& d, const Wide<T>* mean, const Tensor& rstd, const Tensor& dscale,
                 Wide<T>* dshift) {
  using A = Wide<T>;
  kernels::both::ColumnSums<T> sums{elements<const T>(d.dy),
                                    elements<const T>(d.x),
                                    mean,
                                    elements<const A>(rstd),
                                    kRows,
                                    kWidth,
                                    4,
                                    nullptr};
  const Tensor parts = at::empty({2, sums.parts_count(), kWidth}, d.wide);
  sums.parts = elements<A>(parts);
  run_elements(sums);
  run_elements(kernels::both::AddParts<A>{sums.parts, sums.parts_count(), kWidth,
                                          elements<A>(dscale), dshift});
}

TEST(Both, LayerNorm) {
  in_every_type([]<class T>(T, at::ScalarType type, int threads) {
    using A = Wide<T>;
    const NormData d(type);
    Tensor stats = d.numbers();
    Tensor y = d.rows();
    kernels::cpu::norm_whole(d.x, d.scale, d.shift, 1e-5, stats, y);
    Tensor dscale = d.vector();
    Tensor dshift = d.vector();
    Tensor dx = d.rows();
    kernels::cpu::norm_backward_whole(d.dy, d.x, stats, d.scale, dscale, dshift, dx);

    const Tensor found = d.numbers();
    const Tensor out = d.rows();
    A* mean = elements<A>(found);
    A* rstd = mean + kRows;
    const T* x = elements<const T>(d.x);
    const A* scale = elements<const A>(d.scale);
    run_rows(
        kernels::both::WholeRows<Norm::kLayer, T>{x, scale, elements<const A>(d.shift), A(1e-5),
                                                  mean, rstd, elements<T>(out), kWidth, kRows},
        threads);
    expect_near(found, stats, type, "statistics");
    expect_near(out, y, type, "y");
    const Tensor gradient = d.rows();
    run_rows(kernels::both::BackwardApply<Norm::kLayer, T>{elements<const T>(d.dy), x, mean, rstd,
                                                           scale, nullptr, nullptr, A(kWidth),
                                                           elements<T>(gradient), kWidth, kRows},
             threads);
    expect_near(gradient, dx, type, "dx");
    const Tensor dscale2 = d.vector();
    const Tensor dshift2 = d.vector();
    column_sums<T>(d, mean, found[1], dscale2, elements<A>(dshift2));
    expect_near(dscale2, dscale, type, "dscale");
    expect_near(dshift2, dshift, type, "dshift");
  });
}

TEST(Both, LayerNormInParts) {
  in_every_type([]<class T>(T, at::ScalarType type, int threads) {
    using A = Wide<T>;
    const NormData d(type);
    Tensor stats = d.numbers();
    kernels::cpu::norm_statistics(d.x, stats);
    const T* x = elements<const T>(d.x);
    const T* dy = elements<const T>(d.dy);
    const A* scale = elements<const A>(d.scale);
    const Tensor found = d.numbers();
    A* mean = elements<A>(found);
    run_rows(kernels::both::Statistics<Norm::kLayer, T>{x, mean, mean + kRows, kWidth, kRows},
             threads);
    expect_near(found, stats, type, "statistics");

    const Tensor rstd = random({kRows}, d.wide);
    const A* r = elements<const A>(rstd);
    Tensor y = d.rows();
    kernels::cpu::norm_apply(d.x, stats[0], rstd, d.scale, d.shift, y);
    const Tensor out = d.rows();
    run_rows(kernels::both::Apply<Norm::kLayer, T>{x, mean, r, scale, elements<const A>(d.shift),
                                                   elements<T>(out), kWidth, kRows},
             threads);
    expect_near(out, y, type, "y");

    Tensor sums = d.numbers();
    Tensor dscale = d.vector();
    Tensor dshift = d.vector();
    kernels::cpu::norm_backward_sums(d.dy, d.x, stats[0], rstd, d.scale, sums, dscale, dshift);
    const Tensor sums2 = d.numbers();
    A* first = elements<A>(sums2);
    run_rows(kernels::both::BackwardSums<Norm::kLayer, T>{dy, x, mean, r, scale, first,
                                                          first + kRows, kWidth, kRows},
             threads);
    expect_near(sums2, sums, type, "sums");
    Tensor dx = d.rows();
    kernels::cpu::norm_backward_apply(d.dy, d.x, stats[0], rstd, d.scale, sums, 2 * kWidth, dx);
    const Tensor gradient = d.rows();
    run_rows(kernels::both::BackwardApply<Norm::kLayer, T>{dy, x, mean, r, scale, first,
                                                           first + kRows, A(2 * kWidth),
                                                           elements<T>(gradient), kWidth, kRows},
             threads);
    expect_near(gradient, dx, type, "dx");
  });
}

TEST(Both, RmsNorm) {
  in_every_type([]<class T>(T, at::ScalarType type, int threads) {
    using A = Wide<T>;
    const NormData d(type);
    const T* x = elements<const T>(d.x);
    const T* dy = elements<const T>(d.dy);
    const A* scale = elements<const A>(d.scale);
    Tensor rstd = d.numbers()[0];
    Tensor y = d.rows();
    kernels::cpu::rms_whole(d.x, d.scale, 1e-5, rstd, y);
    const Tensor found = d.numbers()[0];
    const Tensor out = d.rows();
    A* r = elements<A>(found);
    run_rows(kernels::both::WholeRows<Norm::kRms, T>{x, scale, nullptr, A(1e-5), nullptr, r,
                                                     elements<T>(out), kWidth, kRows},
             threads);
    expect_near(found, rstd, type, "rstd");
    expect_near(out, y, type, "y");

    // From sums of squares over rows twice as long, in place.
    run_rows(kernels::both::Statistics<Norm::kRms, T>{x, nullptr, r, kWidth, kRows}, threads);
    kernels::cpu::rms_statistics(d.x, rstd);
    expect_near(found, rstd, type, "squares");
    kernels::cpu::rms_apply(d.x, rstd, 2 * kWidth, 1e-5, d.scale, rstd, y);
    run_rows(kernels::both::ApplyRms<T>{x, r, A(2 * kWidth), A(1e-5), scale, r, elements<T>(out),
                                        kWidth, kRows},
             threads);
    expect_near(found, rstd, type, "rstd from squares");
    expect_near(out, y, type, "y from squares");

    Tensor sums = d.numbers()[0];
    Tensor dscale = d.vector();
    kernels::cpu::rms_backward_sums(d.dy, d.x, rstd, d.scale, sums, dscale);
    const Tensor sums2 = d.numbers()[0];
    run_rows(kernels::both::BackwardSums<Norm::kRms, T>{dy, x, nullptr, r, scale, nullptr,
                                                        elements<A>(sums2), kWidth, kRows},
             threads);
    expect_near(sums2, sums, type, "sums");
    const Tensor dscale2 = d.vector();
    column_sums<T>(d, nullptr, found, dscale2, nullptr);
    expect_near(dscale2, dscale, type, "dscale");
    Tensor dx = d.rows();
    kernels::cpu::rms_backward_apply(d.dy, d.x, rstd, d.scale, sums, 2 * kWidth, dx);
    const Tensor gradient = d.rows();
    run_rows(kernels::both::BackwardApply<Norm::kRms, T>{dy, x, nullptr, r, scale, nullptr,
                                                         elements<const A>(sums2), A(2 * kWidth),
                                                         elements<T>(gradient), kWidth, kRows},
             threads);
    expect_near(gradient, dx, type, "dx");
  });
}

TEST(Both, LossOverAPartOfTheVocabulary) {
  in_every_type([]<class T>(T, at::ScalarType type, int threads) {
    using A = Wide<T>;
    const auto wide = kernels::statistics_type(type);
    const std::int64_t valid = kWidth - 2;
    const grid::Range here{5, 5 + valid};
    const Tensor raw = random({kRows, kWidth}, type);
    const Tensor targets = at::arange(kRows, at::kLong).mul(13);  // the last ones are elsewhere
    Tensor values = raw.clone();
    Tensor largest = at::zeros({kRows}, wide);
    Tensor sums = at::zeros({2, kRows}, wide);
    kernels::cpu::row_maxima(values, valid, largest);
    kernels::cpu::exponentials(values, valid, largest, targets, here, sums);

    const Tensor values2 = raw.clone();
    const Tensor largest2 = at::zeros({kRows}, wide);
    const Tensor sums2 = at::zeros({2, kRows}, wide);
    const auto* ids = elements<const std::int64_t>(targets);
    const kernels::both::Part part{here.begin, here.end};
    run_rows(kernels::both::Maxima<T>{elements<const T>(raw), valid, elements<A>(largest2), kWidth,
                                      kRows},
             threads);
    EXPECT_TRUE(largest2.equal(largest));
    run_rows(
        kernels::both::Exponentials<T>{elements<T>(values2), valid, elements<const A>(largest2),
                                       ids, part, elements<A>(sums2), kWidth, kRows},
        threads);
    expect_near(sums2, sums, type, "sums");
    expect_near(values2, values, type, "exponentials");
    kernels::cpu::softmax_loss_gradient(values, sums, targets, here, 0.25);
    run_rows(kernels::both::LossGradient<T>{elements<T>(values2), elements<const A>(sums2), ids,
                                            part, A(0.25), kWidth, kRows},
             threads);
    expect_near(values2, values, type, "gradient");
  });
}

/// The mask is a function of key and place, whoever computes it.
TEST(Both, DropoutHasTheSameBits) {
  const kernels::Key key = kernels::key_of(3, "dropout");
  const double p = 0.1;
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const std::int64_t first : {0, 1, 2, 3, 127, 4096}) {
      for (const std::int64_t columns : {1, 5, 64, 301}) {
        const kernels::Window2 window{{1000003, 1000010}, {first, first + columns}};
        const Tensor in = random({7, columns}, type);
        Tensor out = at::empty_like(in);
        kernels::cpu::apply_dropout(in, out, window, key, p);
        Tensor mask = at::empty_like(in);
        kernels::cpu::fill_dropout_mask(mask, window, key, p, 3);
        kernels::dispatch(in, [&]<class T>(T) {
          kernels::both::Dropout<T> dropout{key.value,
                                            window.rows.begin,
                                            first,
                                            window.rows.size(),
                                            columns,
                                            kernels::drop_threshold(p),
                                            static_cast<Wide<T>>(1 / (1 - p))};
          const Tensor out2 = at::empty_like(in);
          run_elements(
              kernels::both::ApplyDropout<T>{dropout, elements<const T>(in), elements<T>(out2)});
          EXPECT_TRUE(out2.equal(out)) << type << " " << first << " " << columns;
          dropout.kept = 3;
          const Tensor mask2 = at::empty_like(in);
          run_elements(kernels::both::FillMask<T>{dropout, elements<T>(mask2)});
          EXPECT_TRUE(mask2.equal(mask)) << type << " " << first << " " << columns;
        });
      }
    }
  }
}

template <class A>
void expect_adamw(at::ScalarType type, bool with_more) {
  const kernels::AdamStep step{
      .rate = 0.01, .decay = 0.1, .gradient_scale = 0.7, .step = 3, .mean_decay = 0.75};
  const auto state = [&] { return random({1037}, type); };
  const Tensor gradient = state();
  const Tensor value = state();
  const Tensor mean = state();
  const Tensor square = state().square_();
  const Tensor average = with_more ? state() : Tensor();
  const Tensor copy = with_more ? at::zeros({1037}, at::kBFloat16) : value;
  const Tensor value2 = value.clone();
  const Tensor mean2 = mean.clone();
  const Tensor square2 = square.clone();
  const Tensor average2 = with_more ? average.clone() : Tensor();
  const Tensor copy2 = at::zeros({1037}, at::kBFloat16);
  kernels::cpu::adamw(value, gradient, mean, square, copy, step, average);
  run_elements(kernels::both::AdamStepOf<A>{
      kernels::adam_factors<A>(step), elements<A>(value2), elements<const A>(gradient),
      elements<A>(mean2), elements<A>(square2), with_more ? elements<BFloat16>(copy2) : nullptr,
      with_more ? elements<A>(average2) : nullptr, 1037});
  expect_near(value2, value, type, "value");
  expect_near(mean2, mean, type, "mean");
  expect_near(square2, square, type, "square");
  if (!with_more) return;
  expect_near(copy2, copy, at::kBFloat16, "copy");
  expect_near(average2, average, type, "mean of the values");
}

TEST(Both, AdamW) {
  at::manual_seed(5);
  expect_adamw<double>(at::kDouble, false);
  expect_adamw<float>(at::kFloat, false);
  expect_adamw<float>(at::kFloat, true);
}

}  // namespace
}  // namespace fourfold::test
