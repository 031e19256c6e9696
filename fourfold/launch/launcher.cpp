// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/launcher.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <poll.h>
#include <set>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/launch/remarks.hpp"
#include "fourfold/launch/stop_signal.hpp"

namespace fourfold::launch {

namespace {

constexpr int kMostRanks = 4096;
constexpr std::array<int, 5> kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};

std::atomic<pid_t> running{0};     // the process of mpirun
std::atomic<int> last_signal{0};   // that was to end the job; 0: none
std::atomic<bool> may_ask{false};  // the next SIGTERM asks the ranks to save and stop
std::atomic<bool> asked{false};    // they were asked, now or in an earlier job
std::atomic<bool> waits{false};    // a request has not been passed on yet

/// To mpirun, which ends the ranks. A request waits until they can hear it (`ask_when_ready`).
void pass_on(int signal) {
  if ((signal == SIGTERM || signal == SIGUSR1) && may_ask.exchange(false)) {
    asked = true;
    waits = true;
    return;
  }
  last_signal = signal;
  if (const pid_t child = running; child > 0) kill(child, signal == SIGQUIT ? SIGTERM : signal);
}

/// Passes signals on while it lives, and then restores the previous handlers.
class SignalRelay {
 public:
  SignalRelay() {
    last_signal = 0;
    struct sigaction action {};
    action.sa_handler = pass_on;
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      sigaction(kPassedOn[i], &action, &before_[i]);
      // Signals that were ignored stay ignored, as with nohup and for background jobs of a script.
      if (before_[i].sa_handler == SIG_IGN) sigaction(kPassedOn[i], &before_[i], nullptr);
    }
  }
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;
  ~SignalRelay() {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      sigaction(kPassedOn[i], &before_[i], nullptr);
    }
  }

 private:
  std::array<struct sigaction, kPassedOn.size()> before_{};
};

/// Blocks the signals that are passed on, while it lives.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : kPassedOn) sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { release(); }
  void release() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

std::optional<std::string> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "", ':')) {
    const std::string file = folder + "/" + name;
    if (std::filesystem::is_regular_file(file) && access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

void check(const Job& job) {
  if (job.ranks < 1 || job.ranks > kMostRanks) {
    throw ConfigError(
        concat("--ranks ", job.ranks, " must be from 1 to ", kMostRanks,
               " on one machine; on a cluster start the program with mpirun or srun"));
  }
  if (is_rank()) {
    throw ConfigError(
        "--ranks starts processes by itself; leave it out under mpirun or srun, which have "
        "started them already");
  }
}

std::vector<std::string> mpirun_command(const Job& job) {
  const auto mpirun = find_program("mpirun");
  if (!mpirun) {
    throw ConfigError("--ranks needs the program mpirun: install the package openmpi-bin");
  }
  // The ranks bind themselves (environment.hpp), which works the same under every launcher. Open
  // MPI needs a nonempty list of signals for which it prints a page: nobody sends signal 31.
  std::vector<std::string> command = {
      *mpirun, "--oversubscribe", "--bind-to", "none", "-np", std::to_string(job.ranks),
      "--mca", "opal_signal",     "31"};
  if (job.ranks > usable_cores()) {
    command.insert(command.end(), {"--mca", "mpi_yield_when_idle", "1"});
  }
  command.insert(command.end(), job.command.begin(), job.command.end());
  return command;
}

void set_environment(int ranks) {
  for (const auto& [name, value] : thread_variables(ranks)) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  if (geteuid() == 0) {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
}

/// Runs in the child, which becomes mpirun. It gets a process group of its own so that a Ctrl-C
/// reaches it only once, through this process.
[[noreturn]] void become(const std::vector<std::string>& command, int error_pipe, pid_t parent,
                         const SignalsHeld& held) {
  for (int signal : kPassedOn) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) std::signal(signal, SIG_DFL);
  }
  held.release();
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  dup2(error_pipe, STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  constexpr std::string_view kLine = "mpirun could not be started\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kLine.data(), kLine.size());
  _exit(1);
}

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Shows the text from the pipe until its last writer has closed it, and calls `meanwhile` now and
/// then, also after each signal. Returns whether there was any text to show.
bool forward(int pipe, RemarkFilter& filter, const std::function<void()>& meanwhile) {
  std::array<char, 4096> buffer{};
  bool shown = false;
  const auto show = [&](const std::string& text) {
    shown = shown || !text.empty();
    write_all(STDERR_FILENO, text);
  };
  for (;;) {
    meanwhile();
    pollfd ready{pipe, POLLIN, 0};
    const int count = poll(&ready, 1, 100);
    if (count == 0) show(filter.flush_line());
    if (count <= 0) continue;
    const ssize_t size = read(pipe, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    show(filter.feed({buffer.data(), static_cast<std::size_t>(size)}));
  }
  show(filter.flush());
  return shown;
}

/// Whether a rank that ended like this has reported why. Ranks that exit with one of our statuses
/// have done so.
bool has_spoken(const Death& death, bool shown) {
  if (death.signal == 0 && death.status == kStoppedStatus) return true;
  return shown && death.signal == 0 && (death.status == 1 || death.status == 2);
}

/// The parent of the process, or 0.
pid_t parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  // The format is "pid (name) state parent ...", where the name may contain anything.
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  char state = 0;
  pid_t parent = 0;
  rest >> state >> parent;
  return parent;
}

std::set<pid_t> children_of(pid_t parent) {
  std::set<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto id = parse_int(entry.path().filename().string());
    if (id && parent_of(entry.path()) == parent) found.insert(static_cast<pid_t>(*id));
  }
  return found;
}

/// The file of the program that the process runs; empty if that cannot be told.
std::filesystem::path program_of(pid_t process) {
  std::error_code error;
  return std::filesystem::read_symlink(concat("/proc/", process, "/exe"), error);
}

/// Whether the process has a handler for the signal.
bool catches(pid_t process, int signal) {
  std::ifstream file(concat("/proc/", process, "/status"));
  for (std::string word; file >> word;) {
    std::uint64_t caught = 0;
    if (word == "SigCgt:" && file >> std::hex >> caught) return (caught >> (signal - 1) & 1) != 0;
  }
  return false;
}

/// Passes a request on, through mpirun, once all ranks catch the signal: one that is still loading
/// its libraries would die of it. A child of mpirun that has not become a rank yet has mpirun's own
/// handlers, so the program is looked at first.
void ask_when_ready(pid_t mpirun, int ranks) {
  if (!waits) return;
  const std::filesystem::path launcher = program_of(mpirun);
  int ready = 0;
  for (const pid_t child : children_of(mpirun)) {
    const std::filesystem::path program = program_of(child);
    if (!program.empty() && program != launcher && catches(child, SIGUSR1)) ++ready;
  }
  if (ready < ranks) return;
  waits = false;
  kill(mpirun, SIGUSR1);
}

/// Returns the status of mpirun. Processes that mpirun leaves behind are adopted by this process,
/// ended and reaped. Children from before the job are left alone.
int reap(pid_t child, const std::set<pid_t>& others) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  kill(-child, SIGKILL);
  using std::chrono::steady_clock;
  const auto limit = steady_clock::now() + std::chrono::seconds(5);
  for (bool any = true; any && steady_clock::now() < limit;) {
    any = false;
    for (pid_t left : children_of(getpid())) {
      if (others.contains(left)) continue;
      kill(left, SIGKILL);
      any = waitpid(left, nullptr, WNOHANG) != left || any;
    }
    if (any) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return status;
}

}  // namespace

int run(const Job& job) {
  check(job);
  const std::vector<std::string> command = mpirun_command(job);
  std::array<int, 2> pipes{};
  if (pipe2(pipes.data(), O_CLOEXEC) != 0) throw Error("no pipe for the ranks' messages");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  set_environment(job.ranks);
  may_ask = job.stops_gently && !asked;
  waits = false;
  const SignalRelay relay;
  const std::set<pid_t> others = children_of(getpid());
  const pid_t parent = getpid();
  pid_t child = 0;
  {
    // A signal that arrives now must find `running` set, and must not be consumed by the child.
    const SignalsHeld held;
    child = fork();
    if (child < 0) throw Error("mpirun could not be started: no process left");
    if (child == 0) become(command, pipes[1], parent, held);
    running = child;
  }
  close(pipes[1]);
  RemarkFilter filter;
  const bool shown = forward(pipes[0], filter, [&] { ask_when_ready(child, job.ranks); });
  close(pipes[0]);
  const int status = reap(child, others);
  running = 0;
  const bool stopped = WIFEXITED(status) && WEXITSTATUS(status) == kStoppedStatus;
  if (last_signal != 0 && !stopped)
    return 128 + last_signal;  // ranks that were asked end as they do
  if (filter.death() && !has_spoken(*filter.death(), shown)) {
    job.report(to_string(*filter.death()));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) < 128 ? WEXITSTATUS(status) : 1;
}

bool stop_was_asked() {
  return asked;
}

}  // namespace fourfold::launch
