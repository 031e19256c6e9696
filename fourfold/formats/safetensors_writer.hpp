// Writes a safetensors file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "fourfold/formats/atomic_file.hpp"
#include "fourfold/formats/safetensors.hpp"

namespace fourfold::formats {

/// Takes the list of tensors first and then their data, one tensor after the other in the order of
/// `entries`, in pieces of any size. It only holds a small buffer of the data. The file appears
/// with `commit`; without `commit` nothing is left behind. Every function throws IoError with the
/// reason when the file cannot be written.
class SafetensorsWriter {
 public:
  /// Writes the header. "format": "pt", which other readers require, is added to the metadata
  /// unless it is given. Throws InvariantError when a name is used twice.
  SafetensorsWriter(std::filesystem::path path, std::vector<TensorSpec> tensors,
                    Metadata metadata = {}, Cache cache = Cache::kUse);

  /// The entries in the order in which the data must be written.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  /// The tensor that the next byte belongs to, or null when all data is written. Tensors without
  /// elements are skipped.
  const TensorEntry* next() const;

  /// Writes the next bytes, which may belong to several tensors. Throws InvariantError when there
  /// are too many.
  void write(std::span<const std::byte> bytes);
  /// Writes a whole tensor. Throws InvariantError unless it is the next one and has that size.
  void write(std::string_view name, std::span<const std::byte> bytes);

  /// Renames the file to its final name. Throws InvariantError when data is missing.
  void commit();

  /// The size and the checksum of the file so far.
  std::int64_t size() const { return file_.size(); }
  std::uint64_t checksum() const { return file_.checksum(); }

 private:
  AtomicFile file_;
  std::vector<TensorEntry> entries_;
  std::size_t next_ = 0;      // the first entry that is not complete
  std::int64_t written_ = 0;  // bytes after the header
};

}  // namespace fourfold::formats
