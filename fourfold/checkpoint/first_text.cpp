// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/first_text.hpp"

#include <vector>

namespace fourfold::checkpoint {

std::string first_text(const comm::Communicator& everyone, const std::string& text) {
  if (everyone.size() == 1) return text;
  // The largest is that of the first rank that has a text.
  std::int64_t first = text.empty() ? 0 : everyone.size() - everyone.rank();
  everyone.all_reduce({&first, 1, schedule::DType::kI64}, comm::ReduceOp::kMax).wait();
  if (first == 0) return "";
  const int rank = everyone.size() - static_cast<int>(first);
  auto length = static_cast<std::int64_t>(text.size());
  everyone.broadcast({&length, 1, schedule::DType::kI64}, rank).wait();
  std::vector<std::int64_t> letters(text.begin(), text.end());
  letters.resize(static_cast<std::size_t>(length));
  everyone.broadcast({letters.data(), length, schedule::DType::kI64}, rank).wait();
  return {letters.begin(), letters.end()};
}

}  // namespace fourfold::checkpoint
