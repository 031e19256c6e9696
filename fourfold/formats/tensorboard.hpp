// Event files for TensorBoard.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "fourfold/formats/append_file.hpp"

namespace fourfold::formats {

/// The first record of every event file, as bytes of the file. Wall times are seconds since 1970.
std::string version_record(double wall_time);

/// A record with one value of a curve, as bytes of the file.
std::string scalar_record(std::string_view tag, std::int64_t step, float value, double wall_time);

/// The current time in seconds since 1970.
double unix_time();

/// Cuts all values of steps after `last_step` off the event files of a folder, and what is damaged
/// at the end of a file, such as the last record of a process that was killed. Throws IoError.
void cut_events(const std::filesystem::path& folder, std::int64_t last_step);

/// A value of a curve; a slash in its name, the tag, forms groups.
struct Scalar {
  std::string tag;
  double value = 0;
};

/// Writes curves to a new file in `folder`, which is made if it does not exist. Every value is in
/// the file when the call returns. Throws IoError when the file cannot be written; the file always
/// ends with a whole record.
class EventWriter {
 public:
  /// The name of the file contains the time, the host and the process, so that TensorBoard reads
  /// the runs of one folder in their order.
  explicit EventWriter(const std::filesystem::path& folder);

  /// Values are stored as 32-bit floats.
  void scalar(std::string_view tag, std::int64_t step, double value,
              double wall_time = unix_time());
  /// Writes several values of a step at once.
  void scalars(std::int64_t step, std::span<const Scalar> values, double wall_time = unix_time());

  /// Waits until everything is on the disk.
  void flush() { file_.sync(); }
  /// Whether there are values that could not be written yet.
  bool waits() const { return file_.waits(); }

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace fourfold::formats
