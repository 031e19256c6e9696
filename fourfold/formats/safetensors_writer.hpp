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
/// `entries`, in pieces of any size; holds no more than a small buffer of it. The file appears with
/// `commit`; without it nothing is left behind. Every function throws IoError with the reason when
/// the file cannot be written.
class SafetensorsWriter {
 public:
  /// Writes the header, with "format": "pt" among the metadata unless that is given, for which
  /// other readers ask. Throws InvariantError when a name is used twice.
  SafetensorsWriter(std::filesystem::path path, std::vector<TensorSpec> tensors,
                    Metadata metadata = {});

  /// In the order in which the data has to come.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  /// The tensor that the next byte belongs to, null when all have come. Tensors without elements
  /// are passed over.
  const TensorEntry* next() const;

  /// The next bytes, which may belong to several tensors. Throws InvariantError when they are too
  /// many.
  void write(std::span<const std::byte> bytes);
  /// A whole tensor. Throws InvariantError unless it is the next one and has that size.
  void write(std::string_view name, std::span<const std::byte> bytes);

  /// Puts the file in its place. Throws InvariantError when data is missing.
  void commit();

 private:
  AtomicFile file_;
  std::vector<TensorEntry> entries_;
  std::size_t next_ = 0;      // the first entry with bytes to come
  std::int64_t written_ = 0;  // behind the header
};

}  // namespace fourfold::formats
