// When one rank computed, communicated and waited.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/base/units.hpp"

namespace fourfold::comm {

/// A stretch of time of one rank, by its own clock.
struct Span {
  enum class Kind : std::uint8_t {
    kCompute,
    kOperation,  ///< under way, from its first message to its end; compute may go on meanwhile
    kWait        ///< compute stands still for an operation
  };

  Kind kind = Kind::kCompute;
  std::string name{};   ///< its kind: "linear dW", "all_gather"
  std::string layer{};  ///< that it belongs to: "h.3.mlp.c_fc"; empty: none
  std::string axes{};   ///< of the operation: "x", "y+z"; empty for compute
  int lane = -1;        ///< of the operation
  Flops flops{};
  Bytes bytes{};          ///< of the whole tensors, or read and written by compute
  std::int64_t step = 0;  ///< in which it began, or was issued
  Seconds issued{};       ///< of an operation: when it was handed to its lane
  Seconds begin{};
  Seconds end{};

  bool operator==(const Span&) const = default;
};

/// The name of compute between the phases that are reported: operations are issued, memory is
/// allocated, samples are read.
inline constexpr const char* kOther = "other";

/// The spans of some steps. Compute and waits follow each other without holes, since what nobody
/// reports is a span too; operations lie beside them. Any thread may add to it.
class Timeline {
 public:
  struct Step {
    std::int64_t number = 0;
    Seconds begin;
    Seconds end;  ///< 0 while it is under way

    bool operator==(const Step&) const = default;
  };

  /// What is reported outside of steps is left out, but for operations that were issued in one.
  void begin_step(std::int64_t number);
  void end_step();

  /// The rank has computed: since the last compute, wait or begin of a step, until now.
  void compute(std::string_view name, Flops flops, Bytes bytes, std::string_view layer = {});
  /// The rank has waited from span.begin on, until now.
  void wait(Span span);
  /// An operation has ended.
  void operation(Span span);

  std::vector<Step> steps() const;
  std::vector<Span> spans() const;

 private:
  bool in_step() const { return !steps_.empty() && steps_.back().end == Seconds(); }
  void add_compute(std::string_view name, std::string_view layer, Flops flops, Bytes bytes,
                   Seconds end);

  mutable std::mutex mutex_;  // everything below
  std::vector<Step> steps_;
  std::vector<Span> spans_;
  Seconds reached_;  // the end of the last span of the compute thread
};

}  // namespace fourfold::comm
