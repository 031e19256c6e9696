// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/loader.hpp"

#include <algorithm>
#include <map>
#include <memory>

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

/// The files of a checkpoint, which may be more than a process can have open at once.
class Files {
 public:
  explicit Files(const Good& checkpoint) {
    for (const formats::Manifest::File& file : checkpoint.manifest.files) {
      paths_.push_back(checkpoint.path / file.name);
    }
    open_.resize(paths_.size());
  }

  std::size_t size() const { return paths_.size(); }
  /// Opens the file, and closes others where many are open.
  const formats::ReadFile& at(std::size_t number) {
    constexpr std::size_t kMost = 256;
    if (!open_[number]) {
      if (count_++ == kMost) {
        for (auto& file : open_) {
          if (file) read_ += file->bytes_read();
          file.reset();
        }
        count_ = 1;
      }
      open_[number] = std::make_unique<formats::ReadFile>(paths_[number]);
    }
    return *open_[number];
  }

  /// What was really read of all files.
  Bytes bytes_read() const {
    std::int64_t bytes = read_;
    for (const auto& file : open_) bytes += file ? file->bytes_read() : 0;
    return Bytes(bytes);
  }

 private:
  std::vector<fs::path> paths_;
  std::vector<std::unique_ptr<formats::ReadFile>> open_;
  std::size_t count_ = 0;  // of those that are open
  std::int64_t read_ = 0;  // of those that were closed
};

/// A part of a tensor in a file.
struct Source {
  std::size_t file = 0;    ///< its number
  std::int64_t begin = 0;  ///< its first byte in the file
  grid::Block block;
  at::ScalarType type = at::kFloat;
};

/// Where everything is in the files of a checkpoint.
class Contents {
 public:
  explicit Contents(const Good& checkpoint) : files_(checkpoint) {
    for (std::size_t i = 0; i < files_.size(); ++i) add(i);
  }

  const formats::ReadFile& file_of(const Source& source) { return files_.at(source.file); }

  const std::vector<Source>* find(const std::string& name) const {
    const auto found = sources_.find(name);
    return found == sources_.end() ? nullptr : &found->second;
  }
  Bytes bytes_read() const { return files_.bytes_read(); }

 private:
  void add(std::size_t number) {
    const formats::ReadFile& file = files_.at(number);
    const formats::FileHeader header = formats::read_header(file);
    const std::string path = file.path().string();
    for (const formats::TensorEntry& entry : header.entries) {
      EntryName name = parse_entry(entry, path);
      sources_[name.name].push_back({number, header.data_begin + entry.begin, std::move(name.block),
                                     scalar_type_of(entry.dtype, path)});
    }
  }

  Files files_;
  std::map<std::string, std::vector<Source>> sources_;
};

/// Reads a rectangle of a source: some elements that follow each other at a time.
class RectangleReader {
 public:
  RectangleReader(const formats::ReadFile& file, const Source& source, const grid::Block& wanted)
      : file_(&file), source_(&source), inside_(grid::relative(wanted, source.block)) {
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
      file_->read(at + range.begin * strides_[dim], {to_, static_cast<std::size_t>(count)});
      to_ += count;
      return;
    }
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      read_from(dim + 1, at + i * strides_[dim]);
    }
  }

  const formats::ReadFile* file_;
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

/// Fills a block from all sources that have a part of it.
void fill(const StateBlock& block, Contents& contents, const Good& checkpoint) {
  const std::vector<Source>* sources = contents.find(block.name);
  std::int64_t found = 0;
  for (std::size_t i = 0; sources != nullptr && i < sources->size(); ++i) {
    const Source& source = (*sources)[i];
    if (source.block.ranges.size() != block.block.ranges.size()) continue;
    const grid::Block shared = grid::intersect(source.block, block.block);
    if (shared.elements() == 0) continue;
    const Tensor values = RectangleReader(contents.file_of(source), source, shared).read();
    view_of(block.data, grid::relative(shared, block.block)).copy_(values);
    found += shared.elements();
  }
  if (found == block.block.elements()) return;
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
  std::set<std::int64_t> damaged;
  // The first rank says which one is next: on another host a folder may look older.
  for (std::size_t i = 0;; ++i) {
    std::int64_t next = i < all.size() ? all[i].step : 0;
    if (everyone.size() > 1) everyone.broadcast({&next, 1, schedule::DType::kI64}, 0).wait();
    if (next == 0 && damaged.empty()) return std::nullopt;
    if (next == 0) {
      throw ConfigError(concat(
          "no checkpoint in ", checkpoints.string(), " is as it was written (",
          step > 0 ? concat("until step ", step, ", ") : "", damaged.size(),
          damaged.size() == 1 ? " is" : " are",
          " damaged or cannot be read): nothing was changed; fourfold checkpoint verify says what "
          "is wrong, and without that folder the run begins again"));
    }
    Good checkpoint{checkpoints / step_name(next), {}, damaged};
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
    damaged.insert(next);
  }
}

Loaded load_state(const Good& checkpoint, const std::vector<StateBlock>& blocks) {
  Contents contents(checkpoint);
  Loaded loaded;
  for (const StateBlock& block : blocks) {
    fill(block, contents, checkpoint);
    loaded.needed += Bytes(static_cast<std::int64_t>(block.data.nbytes()));
  }
  loaded.read = contents.bytes_read();
  return loaded;
}

}  // namespace fourfold::checkpoint
