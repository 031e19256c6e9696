// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/config.hpp"

#include "fourfold/base/error.hpp"

namespace fourfold::config {

std::string_view to_string(Tokenizer tokenizer) {
  switch (tokenizer) {
    case Tokenizer::kBpe:
      return "bpe";
    case Tokenizer::kBytes:
      return "bytes";
  }
  throw InvariantError("no such tokenizer");
}

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "float32";
    case Precision::kBf16:
      return "bf16";
    case Precision::kFloat64:
      return "float64";
  }
  throw InvariantError("no such precision");
}

std::string_view to_string(Activations activations) {
  switch (activations) {
    case Activations::kSharded:
      return "sharded";
    case Activations::kReplicated:
      return "replicated";
  }
  throw InvariantError("no such way to keep activations");
}

std::string_view to_string(NoiseSchedule schedule) {
  switch (schedule) {
    case NoiseSchedule::kCosine:
      return "cosine";
    case NoiseSchedule::kLinear:
      return "linear";
  }
  throw InvariantError("no such schedule of noise");
}

std::string_view to_string(OnBadStep what) {
  switch (what) {
    case OnBadStep::kStop:
      return "stop";
    case OnBadStep::kSkip:
      return "skip";
  }
  throw InvariantError("no such way to go on");
}

std::string_view to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
  }
  throw InvariantError("no such kind of device");
}

std::string_view to_string(Bf16Sums sums) {
  switch (sums) {
    case Bf16Sums::kExact:
      return "exact";
    case Bf16Sums::kNccl:
      return "nccl";
  }
  throw InvariantError("no such way to sum");
}

}  // namespace fourfold::config
