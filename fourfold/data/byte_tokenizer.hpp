// The tokenizer whose tokens are bytes, and how to recognise it by its files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/data/bpe_model.hpp"
#include "fourfold/data/tokenizer.hpp"

namespace fourfold::data {

/// True for the files that the tokenizer of make_byte_tokenizer saves: GPT-2's files without
/// merges, with each byte's value as its token.
bool is_byte_vocabulary(const BpeModel& files);

}  // namespace fourfold::data
