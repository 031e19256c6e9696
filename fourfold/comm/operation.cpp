// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/operation.hpp"

#include <algorithm>
#include <cstring>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/circulant.hpp"
#include "fourfold/comm/doubling.hpp"
#include "fourfold/comm/exchange.hpp"
#include "fourfold/comm/packed.hpp"
#include "fourfold/comm/ring.hpp"
#include "fourfold/comm/transfers.hpp"
#include "fourfold/comm/tree.hpp"
#include "fourfold/comm/widened.hpp"

namespace fourfold::comm {

using schedule::Algorithm;
using schedule::Op;

Slots::Slots(ScratchPool& pool, int count, std::int64_t bytes) : block_(pool.take(count * bytes)) {
  free_.reserve(static_cast<std::size_t>(count));
  for (int i = count; i-- > 0;) free_.push_back(block_.data() + i * bytes);
}

std::byte* Slots::take() {
  std::byte* slot = free_.back();
  free_.pop_back();
  return slot;
}

Cut::Cut(const schedule::Collective& collective, schedule::Reach reach)
    : element_size(schedule::size_of(collective.dtype)) {
  const schedule::Segments segments = schedule::segments_of(collective.priority, reach);
  elements = segments.bytes.value() / element_size;
  window = segments.window;
}

schedule::Chunk Cut::segment(const schedule::Chunk& chunk, std::int64_t index) const {
  const std::int64_t begin = std::min(chunk.begin + index * elements, chunk.end);
  return {begin, std::min(begin + elements, chunk.end)};
}

bool Sequence::advance() {
  while (at_ < parts_.size()) {
    if (!parts_[at_]->advance()) return false;
    parts_[at_++].reset();
  }
  return true;
}

int Sequence::awaited() const {
  return at_ < parts_.size() ? parts_[at_]->awaited() : -1;
}

namespace {

OperationPtr make_all_reduce(const schedule::Collective& c, const View& data, const Port& port,
                             ScratchPool& scratch, Algorithm algorithm) {
  if (algorithm == Algorithm::kDirect) return make_direct_all_reduce(c, data, port, scratch);
  if (algorithm == Algorithm::kDoubling) return make_doubling_all_reduce(c, data, port, scratch);
  if (algorithm == Algorithm::kRing) return make_ring_all_reduce(c, data, port, scratch);
  std::vector<OperationPtr> parts;
  const auto chunk = schedule::chunk_of(c.count, port.size(), port.index());
  const View own{static_cast<std::byte*>(data.data) + chunk.begin * schedule::size_of(c.dtype),
                 chunk.size(), c.dtype};
  if (algorithm == Algorithm::kCirculant) {
    schedule::Collective part = c;
    part.op = Op::kReduceScatter;
    parts.push_back(make_operation(part, InOut{data, own}, port, scratch));
    part.op = Op::kAllGather;
    parts.push_back(make_operation(part, InOut{own, data}, port, scratch));
  } else {
    parts.push_back(make_bf16_reduce_scatter(c, data.data, own.data, port, scratch));
    parts.push_back(make_ring_all_gather(c, own.data, data.data, port));
  }
  return std::make_unique<Sequence>(std::move(parts));
}

}  // namespace

OperationPtr make_operation(const schedule::Collective& c, const InOut& buffers, const Port& port,
                            ScratchPool& scratch) {
  const Algorithm algorithm = schedule::algorithm_of(c, port.size());
  const void* in = buffers.in.data;
  void* out = buffers.out.data;
  if (schedule::travels_in_f32(c, port.size())) return make_widened(c, buffers, port, scratch);
  switch (c.op) {
    case Op::kAllReduce:
      return make_all_reduce(c, buffers.out, port, scratch, algorithm);
    case Op::kAllGather:
      return algorithm == Algorithm::kCirculant
                 ? make_circulant_all_gather(c, in, out, port, scratch)
                 : make_ring_all_gather(c, in, out, port);
    case Op::kReduceScatter:
      if (algorithm == Algorithm::kCirculant) {
        return make_circulant_reduce_scatter(c, in, out, port, scratch);
      }
      return algorithm == Algorithm::kExchange
                 ? make_bf16_reduce_scatter(c, in, out, port, scratch)
                 : make_ring_reduce_scatter(c, in, out, port, scratch);
    case Op::kBroadcast:
      return make_broadcast(c, out, port);
    case Op::kReduce:
      return algorithm == Algorithm::kExchange ? make_bf16_reduce(c, in, out, port, scratch)
                                               : make_tree_reduce(c, in, out, port, scratch);
    case Op::kSend:
      return make_send(c, in, port);
    case Op::kRecv:
      return make_receive(c, out, port);
    case Op::kBarrier:
      return make_barrier(port);
  }
  throw InvariantError("no such operation");
}

OperationPtr make_operation(const schedule::Collective& c, const Buffers& buffers, const Port& port,
                            ScratchPool& scratch) {
  if (buffers.size() > 1) return make_packed(c, buffers, port, scratch);
  return make_operation(c, buffers.empty() ? InOut{} : buffers.front(), port, scratch);
}

void run_alone(const schedule::Collective& c, const InOut& buffers) {
  FOURFOLD_CHECK(c.op != Op::kSend && c.op != Op::kRecv, "a group of one has no peer");
  const bool copies = c.op == Op::kAllGather || c.op == Op::kReduceScatter || c.op == Op::kReduce;
  if (copies && buffers.in.data != buffers.out.data && c.count > 0) {
    std::memcpy(buffers.out.data, buffers.in.data, static_cast<std::size_t>(c.payload().value()));
  }
}

}  // namespace fourfold::comm
