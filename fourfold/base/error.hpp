// The errors of the library, grouped by what the caller can do about them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace fourfold {

/// The place in the source that an error refers to. As a default argument it is the place of the
/// caller.
struct Where {
  const char* file = "";
  int line = 0;

  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// The rank that the calling thread works for, or -1 before it has one. Ranks may be threads of one
/// process, so each thread has its own value. It is only used in messages.
int this_rank();
void set_this_rank(int rank);

/// The base class of everything that the library throws. `what()` is one line for a person.
/// `where()` and `rank()` say where it was thrown.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, Where where = Where::here());

  const Where& where() const { return where_; }
  int rank() const { return rank_; }
  /// The exit status of the process for this error: 2 for bad input, 1 for a failed run.
  virtual int exit_status() const { return 1; }

 private:
  Where where_;
  int rank_;
};

/// The input is wrong and the user can fix it. The message says how.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message, Where where = Where::here())
      : Error(message, where) {}
  int exit_status() const override { return 2; }
};

/// A peer failed, disagrees, or did not answer in time. The job cannot continue.
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

/// A bug of ours: a condition that the code guarantees did not hold.
class InvariantError : public Error {
 public:
  explicit InvariantError(const std::string& message, Where where = Where::here())
      : Error(message, where) {}
};

/// One line for a log or a terminal: "rank 3: message" and, for an InvariantError, the place. A
/// ConfigError, which every rank would find, has no rank. Messages of other libraries are shortened
/// for users: the stack is left out, and a lack of memory is named as such.
std::string describe(const std::exception& error);

/// What `describe` leaves out of another library's error: its whole message, with its stack. Empty
/// for errors of one line.
std::string details(const std::exception& error);

}  // namespace fourfold
