// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/supervisor.hpp"

#include <algorithm>

#include "fourfold/base/text.hpp"
#include "fourfold/train/run_folder.hpp"

#include "apps/fourfold/commands.hpp"

namespace fourfold::app {

namespace {

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

/// The same on whatever grid is best: that of the command line or of its configuration does not fit
/// any more. The run's own configuration has everything else.
std::vector<std::string> with_other_grid(const Supervised& job, char** argv) {
  std::vector<std::string> words =
      without_options(argv, {"--out", "--resume", "--restarts", "--grid"});
  const auto config = std::find(words.begin(), words.end(), job.config);
  if (config != words.end()) words.erase(config);
  return resuming(job, std::move(words));
}

/// The next smaller number of ranks that has a grid; one rank has one.
int fewer(const Supervised& job, int ranks) {
  do {
    --ranks;
  } while (ranks > 1 && !job.has_grid(ranks));
  return ranks;
}

}  // namespace

int supervise(const Supervised& job, char** argv) {
  RankOptions ranks = job.ranks;
  std::vector<std::string> words =
      resuming(job, without_options(argv, {"--out", "--resume", "--restarts"}));
  int idle = 0;  // failures in a row without a new step
  for (int left = job.restarts;; --left) {
    train::forget_begun(job.folder);
    const int status = start(ranks, words);
    if (status == 1 && train::ended_after(job.folder) >= job.steps) {
      print_error("ranks failed after the run had ended: its results are complete");
      return 0;
    }
    if (status != 1 || left == 0) return status;
    idle = train::has_moved(job.folder) ? 0 : idle + 1;
    if (idle >= 2 && *ranks.ranks > 1 && train::is_run_folder(job.folder)) {
      ranks.ranks = fewer(job, *ranks.ranks);
      idle = 0;
      words = with_other_grid(job, argv);
    }
    print_error(concat("the run failed after step ", train::last_step(job.folder),
                       " and starts again with ", *ranks.ranks,
                       *ranks.ranks == 1 ? " rank" : " ranks", "; ", left - 1,
                       left == 2 ? " more restart" : " more restarts"));
  }
}

}  // namespace fourfold::app
