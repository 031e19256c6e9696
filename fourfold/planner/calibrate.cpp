// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/calibrate.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "fourfold/base/check.hpp"
#include "fourfold/base/host_memory.hpp"
#include "fourfold/nn/attention.hpp"
#include "fourfold/planner/hosts.hpp"
#include "fourfold/planner/measure_links.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/transfer.hpp"
#include "fourfold/train/device.hpp"
#include "fourfold/train/gpu.hpp"
#include "fourfold/train/rank_memory.hpp"

namespace fourfold::planner {

using at::Tensor;
using schedule::DType;

namespace {

/// Measures what a device computes, on all ranks at once.
class DeviceProbe {
 public:
  DeviceProbe(comm::World& world, const comm::Communicator& everyone, const CalibrationSpec& spec)
      : everyone_(&everyone),
        spec_(&spec),
        mesh_(world, grid::Grid({.x = world.size()}), {}, train::open_device(world, spec.device)) {
    meter_.emplace(train::type_of(spec.device));
    if (on_gpu()) counting_.emplace(*meter_);
    device_.emplace(world, spec.device, *meter_);
  }

  cluster::Device run() {
    cluster::Device device;
    device.name = on_gpu() ? "GPU" : spec_->device.gflops > 0 ? "emulated device" : "processor";
    device.memory = memory();
    device.usable_memory = spec_->device.memory_gib > 0 ? 1 : 0.875;
    device.kernel_start = time_of_copy(16);
    device.memory_bandwidth = copy_bandwidth(device.kernel_start);
    const std::vector<cluster::ProductPoint> rates = product_rates(DType::kF32);
    double best = 0;
    for (const cluster::ProductPoint& point : rates) best = std::max(best, point.efficiency);
    device.f32 = FlopsPerSecond(best);
    for (const cluster::ProductPoint& point : rates) {
      device.product_efficiency.push_back({point.side, point.efficiency / best});
    }
    device.bf16 = FlopsPerSecond(rate_of(DType::kBF16, rates.back().side));
    device.f64 = FlopsPerSecond(rate_of(DType::kF64, rates.back().side));
    device.attention_efficiency = std::min(1.0, attention_rate() / best);
    return device;
  }

  /// How many times as long products take on the slowest rank while all ranks communicate.
  double slowdown();

  /// Of a machine that could not keep up with the device that it emulates; may be empty.
  std::string warning() const { return device_->warning(mesh_); }

  void set_ranks_here(int ranks) { here_ = ranks; }
  const tensor::Mesh& mesh() const { return mesh_; }
  const tensor::MemoryMeter& meter() const { return *meter_; }

  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions(type).device(mesh_.device());
  }

  /// Pieces of compute of about two milliseconds.
  Work short_work(FlopsPerSecond rate) {
    const double side = std::cbrt(2e-3 * rate.value() / 2);
    const auto whole = std::max<std::int64_t>(1, static_cast<std::int64_t>(side));
    const Tensor a = at::ones({whole, whole}, options(at::kFloat));
    const Tensor out = at::empty({whole, whole}, options(at::kFloat));
    return [this, a, out](int times, const std::function<void()>& after_each) {
      device_->begin_step();
      for (int i = 0; i < times; ++i) {
        Tensor result = out;
        tensor::product(mesh_, "product", result, a, a);
        after_each();
      }
      tensor::wait_for_device(mesh_.device());
      device_->end_step();
    };
  }

  Seconds product_time(DType dtype, std::int64_t side) {
    const at::ScalarType type = tensor::scalar_type_of(dtype);
    const Tensor a = at::ones({side, side}, options(type));
    Tensor out = at::empty({side, side}, options(type));
    return timed([&] { tensor::product(mesh_, "product", out, a, a); });
  }

 private:
  bool on_gpu() const { return mesh_.device().is_cuda(); }

  Bytes memory() const {
    if (spec_->device.memory_gib > 0) return train::memory_of_device(spec_->device);
    if (on_gpu()) return train::gpu_memory();
    return Bytes(host_memory().total.value() / std::max(1, here_));
  }

  /// Repeats short work, so that the clock is fine enough.
  Seconds timed(const std::function<void()>& work) {
    const auto times = [&](int count) {
      device_->begin_step();
      const Seconds begin = now();
      for (int i = 0; i < count; ++i) work();
      tensor::wait_for_device(mesh_.device());
      const Seconds time = now() - begin;
      device_->end_step();
      return time;
    };
    work();
    const double first = std::max(1e-7, times(1).value());
    std::array<double, 1> count = {std::clamp(0.02 / first, 1.0, 1e5)};
    everyone_->all_reduce(comm::view(count), comm::ReduceOp::kMax).wait();
    const int repeat = static_cast<int>(count[0]);
    return fastest(*everyone_, spec_->rounds, [&] { times(repeat); }) * (1.0 / repeat);
  }

  double rate_of(DType dtype, std::int64_t side) {
    const double flops =
        2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side);
    return flops / product_time(dtype, side).value();
  }

  std::vector<cluster::ProductPoint> product_rates(DType dtype) {
    constexpr double kTooLong = 0.1;
    std::vector<cluster::ProductPoint> points;
    const std::int64_t largest = on_gpu() ? 8192 : 1024;
    for (std::int64_t side = 16; side <= largest; side *= 2) {
      show(concat("products of ", side));
      const double rate = rate_of(dtype, side);
      points.push_back({side, rate});
      const double next = 16.0 * static_cast<double>(side * side * side) / rate;
      if (next > kTooLong) break;
    }
    return points;
  }

  Seconds time_of_copy(std::int64_t count) {
    const Tensor from = at::ones({count}, options(at::kFloat));
    Tensor to = at::empty({count}, options(at::kFloat));
    const schedule::Arithmetic work{.dtype = DType::kF32,
                                    .bytes = Bytes(2 * static_cast<std::int64_t>(from.nbytes()))};
    return timed([&] {
      to.copy_(from);
      mesh_.compute("copy", work);
    });
  }

  BytesPerSecond copy_bandwidth(Seconds start) {
    show("the memory");
    const std::int64_t count = on_gpu() ? 128 << 20 : 4 << 20;  // larger than a core's cache
    const Seconds time = time_of_copy(count) - start;
    return Bytes(2 * count * 4) / std::max(time, Seconds(1e-9));
  }

  double attention_rate() {
    show("attention");
    nn::AttentionShape shape;
    shape.samples = 1;
    shape.context = 256;
    shape.heads = shape.all_heads = 2;
    shape.head_size = 64;
    const Tensor qkv = at::ones({256, 3 * 2 * 64}, options(at::kFloat));
    const at::NoGradGuard no_graph;
    const Seconds time = timed([&] { nn::causal_attention(mesh_, qkv, shape); });
    const double flops = 2.0 * 2 * 256 * 256 * 2 * 64;
    return flops / time.value();
  }

  void show(const std::string& text) const {
    if (spec_->show && mesh_.world().rank() == 0) spec_->show(text);
  }

  const comm::Communicator* everyone_;
  const CalibrationSpec* spec_;
  tensor::Mesh mesh_;
  int here_ = 1;
  std::optional<tensor::MemoryMeter> meter_;
  std::optional<tensor::MemoryMeter::Counting> counting_;  // for the line about a full GPU
  std::optional<train::Device> device_;
};

/// Compute that communicates and compute alone take turns, so that a slow moment hits both.
double DeviceProbe::slowdown() {
  constexpr std::int64_t kSide = 128;
  constexpr int kFewest = 4;
  constexpr int kMost = 10'000;
  constexpr int kMostAlone = 200;
  const Tensor data = at::ones({1 << 20}, options(at::kFloat));
  const Tensor a = at::ones({kSide, kSide}, options(at::kFloat));
  Tensor out = at::empty({kSide, kSide}, options(at::kFloat));
  const auto time_of_product = [&](int& count, const std::function<bool(int)>& more) {
    tensor::product(mesh_, "product", out, a, a);  // what the first one costs is not measured
    tensor::wait_for_device(mesh_.device());
    everyone_->barrier().wait();
    device_->begin_step();
    const Seconds begin = now();
    for (count = 0; more(count); ++count) tensor::product(mesh_, "product", out, a, a);
    tensor::wait_for_device(mesh_.device());
    device_->end_step();
    return (now() - begin).value() / count;
  };
  int count = 0;
  comm::Work work;
  const double with = time_of_product(count, [&](int done) {
    if (done == 0) {
      work = everyone_->all_reduce(tensor::view(data), comm::ReduceOp::kSum,
                                   comm::Priority::kBackground);
    }
    return done < kFewest || (done < kMost && !work.test());
  });
  work.wait();
  const int repeat = std::min(count, kMostAlone);
  const double alone = time_of_product(count, [&](int done) { return done < repeat; });
  std::array<double, 1> ratio = {with / alone};
  everyone_->all_reduce(comm::view(ratio), comm::ReduceOp::kMax).wait();
  return ratio[0];
}

/// How many times as long compute takes while all ranks communicate.
double slowdown_of(DeviceProbe& probe, const comm::Communicator& everyone, int rounds) {
  if (everyone.size() == 1) return 1;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) ratios.push_back(probe.slowdown());
  return std::clamp(lower_quartile(std::move(ratios)), 1.0, 2.0);
}

/// What hosts send together, as far as groups between hosts show it.
void summarise_links(cluster::Network& network) {
  double inside = 0;
  double between = 0;
  Seconds inside_latency(1e-6);
  Seconds nic_latency(1e-5);
  for (const cluster::MeasuredGroup& group : network.measured) {
    const double bandwidth = group.bandwidth.value();
    if (group.shape.spans_hosts()) {
      if (bandwidth * group.shape.siblings > between) nic_latency = group.latency;
      between = std::max(between, bandwidth * group.shape.siblings);
    } else {
      if (bandwidth > inside) inside_latency = group.latency;
      inside = std::max(inside, bandwidth);
    }
  }
  // Where there is nothing of a kind to measure, nothing is ever sent over it.
  network.inside_bandwidth = BytesPerSecond(inside > 0 ? inside : 1e12);
  network.nic_bandwidth = BytesPerSecond(between > 0 ? between : 1e12);
  network.inside_latency = inside_latency;
  network.nic_latency = nic_latency;
  network.nics = 1;
}

}  // namespace

cluster::Cluster calibrate(comm::World& world, const CalibrationSpec& spec) {
  const comm::Communicator everyone =
      world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  cluster::Cluster result;
  result.name = spec.name;
  result.gpus_per_host = ranks_per_host(world);
  result.about = concat(world.size(), " ranks, ", result.gpus_per_host,
                        " on each host, first host ", world.host(0));
  result.source = "measured by fourfold calibrate";
  DeviceProbe probe(world, everyone, spec);
  probe.set_ranks_here(result.gpus_per_host);
  train::explain_full_gpu("measuring", world.rank(), probe.meter(), {}, [&] {
    result.device = probe.run();
    const std::string warning = probe.warning();
    if (spec.say && world.rank() == 0 && !warning.empty()) spec.say(warning);
    result.network.library = cluster::Library::kFourfold;
    result.network.measured =
        measure_groups(world, everyone, result.gpus_per_host, spec.rounds,
                       probe.short_work(result.device.f32), spec.show, probe.mesh().device());
    summarise_links(result.network);
    if (spec.show && world.rank() == 0) spec.show("compute while ranks communicate");
    result.device.slowdown = slowdown_of(probe, everyone, spec.rounds);
  });
  world.release_device_communicators();  // of groups that nobody needs any more
  return result;
}

}  // namespace fourfold::planner
