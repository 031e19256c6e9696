// When one rank computed, communicated and waited.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/observer.hpp"

namespace fourfold::comm {

/// A stretch of time of one rank, measured by the clock of that rank.
struct Span {
  enum class Kind : std::uint8_t {
    kCompute,
    kOperation,  ///< in flight, from its first message to its end; compute may go on meanwhile
    kWait        ///< compute is blocked by an operation
  };

  Kind kind = Kind::kCompute;
  std::string name{};   ///< its kind: "linear dW", "all_gather"
  std::string layer{};  ///< the layer that it belongs to: "h.3.mlp.c_fc"; empty: none
  std::string axes{};   ///< the axes of the operation: "x", "y+z"; empty for compute
  int lane = -1;        ///< the lane of the operation
  std::optional<schedule::Work> work{};    ///< of compute that was reported
  std::optional<schedule::Phase> phase{};  ///< of such compute
  Flops flops{};
  Bytes bytes{};          ///< the bytes of the whole tensors, or those read and written by compute
  std::int64_t step = 0;  ///< the step in which the span began or the operation was issued
  Seconds issued{};       ///< for an operation: when it was handed to its lane
  Seconds begin{};
  Seconds end{};

  bool operator==(const Span&) const = default;
};

/// The name of the time between the spans of compute that are reported. In it operations are
/// issued, memory is allocated and samples are read.
inline constexpr const char* kOther = "other";

/// An observer that keeps the spans of some steps. Compute and waits follow each other without
/// gaps, since time that is not reported becomes a span too. Operations overlap with these spans.
/// Any thread may add spans.
class Timeline final : public Observer {
 public:
  struct Step {
    std::int64_t number = 0;
    Seconds begin;
    Seconds end;  ///< 0 while the step is under way

    bool operator==(const Step&) const = default;
  };

  /// Spans that are reported outside of steps are dropped, except for operations that were issued
  /// in a step or were in flight when the first step began.
  void begin_step(std::int64_t number);
  void end_step();

  /// Reports that the rank has computed since the last compute, wait or begin of a step, until then
  /// or, if that is 0, until now.
  void compute(const Computed& computed);
  /// Reports that the rank has waited from span.begin until span.end or, if that is 0, until now.
  void wait(Span span);
  /// Reports that an operation has ended.
  void operation(Span span);

  void computed(const Computed& computed) override {
    if (computed.until == Seconds()) return;  // a device says later when it has ended
    Computed until_now = computed;
    until_now.until = Seconds();  // an emulated device has slept since then
    compute(until_now);
  }
  bool wants_times() const override { return true; }
  void timed(const Computed& computed) override { compute(computed); }
  void issued(const Observed& operation, std::string_view layer) override;
  void ended(const Observed& operation, const Run& run) override;
  void waited(const Observed& operation, const std::optional<Blocked>& blocked) override;

  std::vector<Step> steps() const;
  std::vector<Span> spans() const;

 private:
  /// What is only known when an operation is issued.
  struct Issue {
    std::string layer;
    Seconds at;
  };

  Span span_of(const Observed& operation) const;
  bool in_step() const { return !steps_.empty() && steps_.back().end == Seconds(); }
  void add_compute(Span span, Seconds end);

  mutable std::mutex mutex_;  // guards everything below
  std::vector<Step> steps_;
  std::vector<Span> spans_;
  std::unordered_map<std::int64_t, Issue> issues_;  // by number, until the operation is waited for
  Seconds reached_;  // the end of the last span of the compute thread
};

}  // namespace fourfold::comm
