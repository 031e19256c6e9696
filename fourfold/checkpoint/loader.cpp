// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/loader.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include <ATen/ops/empty.h>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/first_text.hpp"
#include "fourfold/formats/read_file.hpp"
#include "fourfold/formats/safetensors_header.hpp"
#include "fourfold/grid/rectangles.hpp"

namespace fourfold::checkpoint {

namespace fs = std::filesystem;
using at::Tensor;

namespace {

/// A part of a tensor in a file.
struct Source {
  const formats::ReadFile* file = nullptr;
  std::int64_t begin = 0;  ///< its first byte in the file
  grid::Block block;
  at::ScalarType type = at::kFloat;
};

/// Where everything is in the files of a checkpoint.
class Contents {
 public:
  explicit Contents(const Good& checkpoint) {
    for (const formats::Manifest::File& file : checkpoint.manifest.files) {
      files_.emplace_back(checkpoint.path / file.name);
      add(files_.back());
    }
  }

  const std::vector<Source>* find(const std::string& name) const {
    const auto found = sources_.find(name);
    return found == sources_.end() ? nullptr : &found->second;
  }
  std::int64_t header_bytes() const { return header_bytes_; }

 private:
  void add(const formats::ReadFile& file) {
    const formats::FileHeader header = formats::read_header(file);
    header_bytes_ += header.data_begin;
    const std::string path = file.path().string();
    for (const formats::TensorEntry& entry : header.entries) {
      EntryName name = parse_entry(entry, path);
      sources_[name.name].push_back({&file, header.data_begin + entry.begin, std::move(name.block),
                                     scalar_type_of(entry.dtype, path)});
    }
  }

  std::deque<formats::ReadFile> files_;
  std::map<std::string, std::vector<Source>> sources_;
  std::int64_t header_bytes_ = 0;
};

/// Reads a rectangle of a source: some elements that follow each other at a time.
class RectangleReader {
 public:
  RectangleReader(const Source& source, const grid::Block& wanted)
      : source_(&source), inside_(grid::relative(wanted, source.block)) {
    const std::size_t dims = wanted.ranges.size();
    // Dimensions from `outer_` on are read at once: all behind the first of them are whole.
    outer_ = dims - 1;
    while (outer_ > 0 && inside_.ranges[outer_].size() == source.block.ranges[outer_].size()) {
      --outer_;
    }
    for (std::size_t d = 0; d < dims; ++d) shape_.push_back(inside_.ranges[d].size());
    strides_.assign(dims, static_cast<std::int64_t>(c10::elementSize(source.type)));
    for (std::size_t d = dims - 1; d > 0; --d) {
      strides_[d - 1] = strides_[d] * source.block.ranges[d].size();
    }
  }

  Tensor read() {
    const Tensor result = at::empty(shape_, source_->type);
    to_ = static_cast<std::byte*>(result.data_ptr());
    read_from(0, source_->begin);
    return result;
  }

 private:
  void read_from(std::size_t dim, std::int64_t at) {
    const grid::Range& range = inside_.ranges[dim];
    if (dim == outer_) {
      const std::int64_t count = range.size() * strides_[dim];
      source_->file->read(at + range.begin * strides_[dim], {to_, static_cast<std::size_t>(count)});
      to_ += count;
      return;
    }
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      read_from(dim + 1, at + i * strides_[dim]);
    }
  }

  const Source* source_;
  grid::Block inside_;  // counted from the beginning of the source
  std::size_t outer_ = 0;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;  // of the source, in bytes
  std::byte* to_ = nullptr;
};

Tensor view_of(Tensor tensor, const grid::Block& block) {
  for (std::size_t d = 0; d < block.ranges.size(); ++d) {
    tensor =
        tensor.narrow(static_cast<std::int64_t>(d), block.ranges[d].begin, block.ranges[d].size());
  }
  return tensor;
}

/// Fills a block from all sources that have a part of it. Returns the bytes that were read.
Bytes fill(const StateBlock& block, const Contents& contents, const Good& checkpoint) {
  const std::vector<Source>* sources = contents.find(block.name);
  std::int64_t found = 0;
  Bytes bytes;
  for (std::size_t i = 0; sources != nullptr && i < sources->size(); ++i) {
    const Source& source = (*sources)[i];
    if (source.block.ranges.size() != block.block.ranges.size()) continue;
    const grid::Block shared = grid::intersect(source.block, block.block);
    if (shared.elements() == 0) continue;
    const Tensor values = RectangleReader(source, shared).read();
    view_of(block.data, grid::relative(shared, block.block)).copy_(values);
    found += shared.elements();
    bytes += Bytes(static_cast<std::int64_t>(values.nbytes()));
  }
  if (found == block.block.elements()) return bytes;
  throw ConfigError(concat("the checkpoint ", checkpoint.path.string(), " has ", found, " of the ",
                           block.block.elements(), " elements of ", block.entry(),
                           ": it is of another model"));
}

/// What is wrong with a checkpoint, as far as this rank looks; empty if nothing is.
std::string look_at(Good& checkpoint, int rank, int ranks) {
  try {
    checkpoint.manifest = formats::read_manifest(checkpoint.path);
  } catch (const Error& error) {
    return error.what();
  }
  return damage(checkpoint.path, checkpoint.manifest, static_cast<std::size_t>(rank),
                static_cast<std::size_t>(ranks));
}

}  // namespace

std::optional<Good> newest_good(comm::World& world, const comm::Communicator& everyone,
                                const fs::path& checkpoints,
                                const std::function<void(const std::string&)>& say,
                                std::int64_t step) {
  std::vector<Listed> all = list(checkpoints);
  std::erase_if(all, [&](const Listed& one) { return step > 0 && one.step > step; });
  // The first rank says which one is next: on another host a folder may look older.
  for (std::size_t i = 0;; ++i) {
    std::int64_t next = i < all.size() ? all[i].step : 0;
    if (everyone.size() > 1) everyone.broadcast({&next, 1, schedule::DType::kI64}, 0).wait();
    if (next == 0) return std::nullopt;
    Good checkpoint{checkpoints / step_name(next), {}};
    std::string wrong;
    {
      const comm::LongWork long_work = world.long_work("verifying a checkpoint");
      wrong = look_at(checkpoint, everyone.rank(), everyone.size());
    }
    wrong = first_text(everyone, wrong);
    if (wrong.empty()) return checkpoint;
    if (everyone.rank() == 0) {
      say(concat("the checkpoint of step ", next, " is damaged and is left out: ", wrong));
    }
  }
}

Loaded load_state(const Good& checkpoint, const std::vector<StateBlock>& blocks) {
  const Contents contents(checkpoint);
  Loaded loaded;
  loaded.read = Bytes(contents.header_bytes());
  for (const StateBlock& block : blocks) {
    const Bytes bytes = fill(block, contents, checkpoint);
    loaded.needed += bytes;
    loaded.read += bytes;
  }
  return loaded;
}

}  // namespace fourfold::checkpoint
