// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/saver.hpp"

#include <bit>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/first_text.hpp"

namespace fourfold::checkpoint {

namespace {

/// What each rank tells all others about its file.
struct Told {
  enum : std::int64_t { kWriting, kWritten, kFailed };
  std::int64_t state = kWriting;
  std::int64_t bytes = 0;
  std::int64_t checksum = 0;
};
constexpr std::size_t kWords = 3;
static_assert(sizeof(Told) == kWords * sizeof(std::int64_t));

Told told_by(const std::vector<std::int64_t>& words, int rank) {
  const auto at = kWords * static_cast<std::size_t>(rank);
  return {words[at], words[at + 1], words[at + 2]};
}

Told told_of(const StateWriter& writer) {
  if (!writer.ended()) return {};
  if (!writer.failure().empty()) return {Told::kFailed, 0, 0};
  return {Told::kWritten, writer.size(), std::bit_cast<std::int64_t>(writer.checksum())};
}

}  // namespace

Saver::Saver(const tensor::Mesh& mesh, SaverSpec spec) : mesh_(&mesh), spec_(std::move(spec)) {
  if (mesh.everyone().rank() == 0) remove_remains(spec_.folder);
  if (mesh.everyone().size() > 1) mesh.everyone().barrier().wait();
}

void Saver::begin(formats::Manifest about, const std::vector<StateBlock>& state) {
  FOURFOLD_CHECK(!under_way(), "a checkpoint is under way");
  about_ = std::move(about);
  began_ = now();
  const comm::LongWork long_work = mesh_->world().long_work("copying the state");
  writer_ = std::make_unique<StateWriter>(
      partial(spec_.folder, about_.step) / rank_file(mesh_->everyone().rank()), state,
      spec_.staging);
  blocked_ += now() - began_;
}

std::optional<Saved> Saver::poll() {
  if (!under_way()) return std::nullopt;
  const Seconds begin = now();
  const comm::Communicator& everyone = mesh_->everyone();
  const Told own = told_of(*writer_);
  std::vector<std::int64_t> words = {own.state, own.bytes, own.checksum};
  if (everyone.size() > 1) {
    std::vector<std::int64_t> all(kWords * static_cast<std::size_t>(everyone.size()));
    everyone
        .all_gather({words.data(), kWords, schedule::DType::kI64},
                    {all.data(), static_cast<std::int64_t>(all.size()), schedule::DType::kI64})
        .wait();
    words = std::move(all);
  }
  for (int rank = 0; rank < everyone.size(); ++rank) {
    if (told_by(words, rank).state != Told::kWriting) continue;
    blocked_ += now() - begin;
    return std::nullopt;
  }
  Saved saved = complete(words);
  saved.blocked = std::exchange(blocked_, Seconds()) + (now() - begin);
  return saved;
}

std::optional<Saved> Saver::finish() {
  const Seconds begin = now();
  if (!under_way()) {
    wait_for_pruning();
    blocked_ += now() - begin;  // the next checkpoint has to wait for it
    return std::nullopt;
  }
  {
    const comm::LongWork long_work = mesh_->world().long_work("writing a checkpoint");
    writer_->wait();
  }
  blocked_ += now() - begin;
  return poll();
}

void Saver::wait_for_pruning() {
  if (!pruning_.valid()) return;
  const comm::LongWork long_work = mesh_->world().long_work("removing old checkpoints");
  pruning_.get();
}

Saved Saver::complete(const std::vector<std::int64_t>& words) {
  const comm::Communicator& everyone = mesh_->everyone();
  Saved saved{.step = about_.step, .bytes = {}, .blocked = {}, .took = {}, .failure = ""};
  bool failed = false;
  for (int rank = 0; rank < everyone.size(); ++rank) {
    const Told told = told_by(words, rank);
    saved.bytes += Bytes(told.bytes);
    failed = failed || told.state == Told::kFailed;
  }
  if (failed) {
    saved.failure = first_text(everyone, writer_->failure());
  } else if (everyone.rank() == 0) {
    saved.failure = commit_on_first(words);
  }
  if (everyone.rank() == 0 && !saved.failure.empty()) {
    std::error_code error;
    std::filesystem::remove_all(partial(spec_.folder, saved.step), error);
  }
  writer_.reset();
  saved.took = now() - began_;
  return saved;
}

/// Returns why the checkpoint cannot be completed; empty if it is.
std::string Saver::commit_on_first(const std::vector<std::int64_t>& words) {
  const comm::LongWork long_work = mesh_->world().long_work("completing a checkpoint");
  for (int rank = 0; rank < mesh_->everyone().size(); ++rank) {
    const Told told = told_by(words, rank);
    about_.files.push_back(
        {rank_file(rank), told.bytes, std::bit_cast<std::uint64_t>(told.checksum)});
  }
  try {
    wait_for_pruning();
    commit(spec_.folder, about_);
    spec_.damaged.erase(about_.step);
    // Removing large files takes time, which training need not wait for.
    pruning_ = std::async(std::launch::async, [spec = spec_, newest = about_.step] {
      prune(spec.folder, newest, spec.keep, spec.keep_every, spec.damaged);
    });
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace fourfold::checkpoint
