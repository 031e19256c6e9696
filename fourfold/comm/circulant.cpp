// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/circulant.hpp"

#include <cstring>
#include <utility>

#include "fourfold/comm/arithmetic.hpp"
#include "fourfold/comm/round.hpp"

namespace fourfold::comm {

namespace {

using schedule::CirculantRound;

/// Works on a copy of the tensor whose blocks begin with this rank's own block, so that the blocks
/// that a round sends or receives are contiguous.
class Circulant : public Operation {
 public:
  Circulant(const schedule::Collective& collective, const Port& port, ScratchPool& scratch,
            std::vector<CirculantRound> rounds)
      : port_(port),
        collective_(collective),
        own_(schedule::chunk_of(collective.count, port.size(), port.index())),
        turned_(scratch.take(collective.payload().value())),
        round_(collective, port),
        rounds_(std::move(rounds)) {}

  bool advance() final {
    if (!std::exchange(prepared_, true)) prepare();
    for (; at_ < rounds_.size(); ++at_, started_ = false) {
      if (!std::exchange(started_, true)) start(rounds_[at_], round_);
      if (!round_.advance()) return false;
      on_received(rounds_[at_]);
    }
    finish();
    return true;
  }

  int awaited() const final { return at_ < rounds_.size() ? round_.awaited() : -1; }

 protected:
  virtual void prepare() = 0;
  virtual void start(const CirculantRound& step, Round& round) = 0;
  virtual void on_received(const CirculantRound& step) = 0;
  virtual void finish() = 0;

  /// The number of elements of `blocks` blocks, starting with the `place`-th block after this
  /// rank's own.
  std::int64_t elements(int place, int blocks) const {
    return schedule::elements_of(collective_.count, port_.size(), port_.index() + place, blocks);
  }
  std::int64_t bytes(std::int64_t count) const {
    return count * schedule::size_of(collective_.dtype);
  }
  /// The `place`-th block of the copy.
  std::byte* block(int place) const { return turned_.data() + bytes(elements(0, place)); }

  static void copy(std::byte* to, const std::byte* from, std::int64_t size) {
    if (size > 0) std::memcpy(to, from, static_cast<std::size_t>(size));
  }

  Port port_;
  schedule::Collective collective_;
  schedule::Chunk own_;
  ScratchPool::Block turned_;

 private:
  Round round_;
  std::vector<CirculantRound> rounds_;
  std::size_t at_ = 0;
  bool prepared_ = false;
  bool started_ = false;
};

class CirculantReduceScatter final : public Circulant {
 public:
  CirculantReduceScatter(const schedule::Collective& collective, const std::byte* in,
                         std::byte* out, const Port& port, ScratchPool& scratch)
      : Circulant(collective, port, scratch, schedule::circulant_rounds(port.size())),
        in_(in),
        out_(out),
        // The first round receives the most blocks; later rounds use the beginning of this memory.
        arrived_(scratch.take(bytes(elements(0, port.size() / 2)))) {}

 private:
  void prepare() override {
    const std::int64_t before = bytes(own_.begin);
    const std::int64_t after = bytes(collective_.count) - before;
    copy(turned_.data(), in_ + before, after);
    copy(turned_.data() + after, in_, before);
  }

  void start(const CirculantRound& step, Round& round) override {
    round.start({block(step.distance), elements(step.distance, step.blocks),
                 port_.neighbour(step.distance)},
                {arrived_.data(), elements(0, step.blocks), port_.neighbour(-step.distance)});
  }

  void on_received(const CirculantRound& step) override {
    combine(turned_.data(), turned_.data(), arrived_.data(), elements(0, step.blocks),
            collective_.dtype, collective_.reduce);
  }

  void finish() override { copy(out_, turned_.data(), bytes(own_.size())); }

  const std::byte* in_;
  std::byte* out_;
  ScratchPool::Block arrived_;
};

class CirculantAllGather final : public Circulant {
 public:
  CirculantAllGather(const schedule::Collective& collective, const std::byte* in, std::byte* out,
                     const Port& port, ScratchPool& scratch)
      : Circulant(collective, port, scratch, backwards(port.size())), in_(in), out_(out) {}

 private:
  static std::vector<CirculantRound> backwards(int p) {
    const std::vector<CirculantRound> rounds = schedule::circulant_rounds(p);
    return {rounds.rbegin(), rounds.rend()};
  }

  void prepare() override { copy(turned_.data(), in_, bytes(own_.size())); }

  void start(const CirculantRound& step, Round& round) override {
    round.start({turned_.data(), elements(0, step.blocks), port_.neighbour(-step.distance)},
                {block(step.distance), elements(step.distance, step.blocks),
                 port_.neighbour(step.distance)});
  }

  void on_received(const CirculantRound&) override {}

  void finish() override {
    const std::int64_t before = bytes(own_.begin);
    const std::int64_t after = bytes(collective_.count) - before;
    copy(out_ + before, turned_.data(), after);
    copy(out_, turned_.data() + after, before);
  }

  const std::byte* in_;
  std::byte* out_;
};

}  // namespace

OperationPtr make_circulant_all_gather(const schedule::Collective& collective, const void* in,
                                       void* out, const Port& port, ScratchPool& scratch) {
  return std::make_unique<CirculantAllGather>(collective, static_cast<const std::byte*>(in),
                                              static_cast<std::byte*>(out), port, scratch);
}

OperationPtr make_circulant_reduce_scatter(const schedule::Collective& collective, const void* in,
                                           void* out, const Port& port, ScratchPool& scratch) {
  return std::make_unique<CirculantReduceScatter>(collective, static_cast<const std::byte*>(in),
                                                  static_cast<std::byte*>(out), port, scratch);
}

}  // namespace fourfold::comm
