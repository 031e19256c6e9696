// What can go wrong, sorted by what the caller can do about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace fourfold {

/// The place in the source that an error speaks of: the caller's, when used as a default argument.
struct Where {
  const char* file = "";
  int line = 0;

  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// The rank that the calling thread works for, or -1 before it has one. Ranks may be threads of one
/// process, so this is the thread's own value; it only serves messages.
int this_rank();
void set_this_rank(int rank);

/// Base of everything that the library throws. `what()` is one line for a person; `where()` and
/// `rank()` say where it was thrown.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, Where where = Where::here());

  const Where& where() const { return where_; }
  int rank() const { return rank_; }
  /// The process's exit status for this error: 2 for bad input, 1 for a failed run.
  virtual int exit_status() const { return 1; }

 private:
  Where where_;
  int rank_;
};

/// The input is wrong and its author can fix it; the message says how.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message, Where where = Where::here())
      : Error(message, where) {}
  int exit_status() const override { return 2; }
};

/// A peer failed, disagrees, or did not answer in time; the job cannot go on.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message, Where where = Where::here())
      : Error(message, where) {}
};

/// A file or a stream could not be read or written.
class IoError : public Error {
 public:
  explicit IoError(const std::string& message, Where where = Where::here())
      : Error(message, where) {}
};

/// Our own mistake: a condition that the code promises did not hold.
class InvariantError : public Error {
 public:
  explicit InvariantError(const std::string& message, Where where = Where::here())
      : Error(message, where) {}
};

/// One line for a log or a terminal: "rank 3: message" and, for an InvariantError, the place. A
/// ConfigError, which every rank would find, has no rank. What other libraries say is cut to what a
/// user can read: no stack, and memory that ran out is called that.
std::string describe(const std::exception& error);

/// What `describe` leaves out of another library's error: all that it says, with its stack. Empty
/// for errors that are one line.
std::string details(const std::exception& error);

}  // namespace fourfold
