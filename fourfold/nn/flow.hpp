// A coroutine that lets other computations go on while it communicates. The two halves of a batch
// are two flows that take turns, so that each computes while the data of the other is in flight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace fourfold::nn {

/// The innermost of flows that await each other: the next turn resumes it.
struct Strand {
  std::coroutine_handle<> inner;
};

/// A computation of a T. A flow does nothing until another flow awaits it, or until it is run.
/// Arguments passed by reference must outlive the flow.
template <class T>
class [[nodiscard]] Flow {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct promise_type {
    std::optional<T> value;
    std::exception_ptr error;
    std::coroutine_handle<> outer;  // the flow that awaits this one
    Strand own;
    Strand* strand = &own;

    Flow get_return_object() { return Flow(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept { return End{}; }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { error = std::current_exception(); }

    T take() {
      if (error) std::rethrow_exception(error);
      return std::move(*value);
    }
  };

  Flow(Flow&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Flow& operator=(Flow&&) = delete;
  ~Flow() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return handle_.done(); }
  /// Continues until the next turn, or to the end.
  void resume() {
    Strand& own = handle_.promise().own;
    if (!own.inner) own.inner = handle_;
    own.inner.resume();
  }
  /// The result of a flow that is done, or its exception.
  T take() { return handle_.promise().take(); }

  // These make a flow awaitable by another flow:
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> outer) noexcept {
    handle_.promise().outer = outer;
    handle_.promise().strand = outer.promise().strand;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  explicit Flow(Handle handle) : handle_(handle) {}

  /// Returns to the flow that awaits this one, or to the caller that runs it.
  struct End {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle handle) noexcept {
      const std::coroutine_handle<> outer = handle.promise().outer;
      return outer ? outer : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  Handle handle_;
};

/// `co_await Turn{}` lets the other flows go on first. If `worth` is false there is nothing to wait
/// for, and the flow continues.
struct Turn {
  bool worth = true;

  bool await_ready() const noexcept { return !worth; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) const noexcept {
    handle.promise().strand->inner = handle;
  }
  void await_resume() const noexcept {}
};

/// Runs flows in turns, the first one first, each a turn behind the one before, and returns their
/// results. Two communications often follow each other with little compute between them. Because
/// the halves are a turn apart, one half computes during both communications.
template <class T>
std::vector<T> interleave(std::vector<Flow<T>> flows) {
  std::vector<T> results(flows.size());
  std::size_t left = flows.size();
  for (std::size_t turn = 0; left > 0; ++turn) {
    for (std::size_t i = 0; i < flows.size() && i <= turn; ++i) {
      if (flows[i].done()) continue;
      flows[i].resume();
      if (!flows[i].done()) continue;
      results[i] = flows[i].take();
      --left;
    }
  }
  return results;
}

/// Runs a single flow.
template <class T>
T run(Flow<T> flow) {
  while (!flow.done()) flow.resume();
  return flow.take();
}

}  // namespace fourfold::nn
