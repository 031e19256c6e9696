// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/supervisor.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/launch/launcher.hpp"
#include "fourfold/train/run_folder.hpp"

#include "apps/fourfold/commands.hpp"

namespace fourfold::app {

namespace {

/// Before ranks that failed without a step are started again.
constexpr std::chrono::seconds kPause{2};

int start(const RankOptions& ranks, const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return run_on_ranks(ranks, argv.data(), [](comm::World&) {});
}

/// The command that goes on with the run.
std::vector<std::string> resuming(const Supervised& job, std::vector<std::string> words) {
  words.insert(words.end(), {"--resume", job.folder});
  return words;
}

/// The command that goes on with a run that has begun: with its own configuration, which has the
/// grid that was chosen, so that sums are rounded in the same way. `any_grid`: that grid does not
/// fit any more.
std::vector<std::string> going_on(const Supervised& job, char** argv, bool any_grid) {
  std::vector<std::string> leave_out = {"--out", "--resume", "--restarts"};
  if (any_grid) leave_out.push_back("--grid");
  std::vector<std::string> words = without_options(argv, leave_out);
  const auto config = std::find(words.begin(), words.end(), job.config);
  if (config != words.end()) words.erase(config);
  return resuming(job, std::move(words));
}

/// The next smaller number of ranks that has a grid; one rank has one. Nothing if that cannot be
/// told, since the disk with the data fails, for example: it may come back.
std::optional<int> fewer(const Supervised& job, int ranks) {
  try {
    do {
      --ranks;
    } while (ranks > 1 && !job.has_grid(ranks));
  } catch (const std::exception& error) {
    print_error(concat("no grid of fewer ranks is looked for: ", describe(error)));
    return std::nullopt;
  }
  return ranks;
}

}  // namespace

int supervise(const Supervised& job, char** argv) {
  RankOptions ranks = job.ranks;
  std::vector<std::string> words =
      resuming(job, without_options(argv, {"--out", "--resume", "--restarts"}));
  int idle = 0;                     // failures in a row without a new step
  bool any_grid = false;            // whether there are fewer ranks than at first
  std::optional<std::int64_t> bad;  // the step that ended the ranks before, if numbers were bad
  for (int left = job.restarts;; --left) {
    train::forget_begun(job.folder);
    const int status = start(ranks, words);
    if (status == 1 && train::ended_after(job.folder) >= job.steps) {
      print_error("ranks failed after the run had ended: its results are complete");
      return 0;
    }
    if (status != 1 || left == 0 || launch::stop_was_asked()) return status;
    const std::optional<std::int64_t> bad_before = std::exchange(bad, train::bad_step(job.folder));
    if (bad && bad == bad_before) {
      print_error(concat("step ", *bad, " has bad numbers again, and would have them once more: ",
                         "the run is not started again"));
      return status;
    }
    idle = train::has_moved(job.folder) ? 0 : idle + 1;
    const bool begun = train::is_run_folder(job.folder);
    const bool gone = begun && idle >= 2 && *ranks.ranks > 1;
    if (const auto left_over = gone ? fewer(job, *ranks.ranks) : std::nullopt) {
      ranks.ranks = *left_over;
      idle = 0;
      any_grid = true;
    }
    if (begun) words = going_on(job, argv, any_grid);
    print_error(concat("the run failed after step ", train::last_step(job.folder),
                       " and starts again with ", *ranks.ranks,
                       *ranks.ranks == 1 ? " rank" : " ranks", "; ", left - 1,
                       left == 2 ? " more restart" : " more restarts"));
    if (idle > 0) std::this_thread::sleep_for(kPause);  // what is missing may come back
    train::wait_until_free(job.folder);
  }
}

}  // namespace fourfold::app
