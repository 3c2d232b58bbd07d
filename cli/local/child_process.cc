#include "cli/local/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: only what POSIX allows there.
[[noreturn]] void Become(const char* executable, char* const* arguments,
                         char* const* environment, int output, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before that took effect.
  if (getppid() != parent) _exit(128 + SIGKILL);
  // The parent's handlers are not the child's; until here no signal came in.
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execve(executable, arguments, environment);
  static constexpr char kSentence[] = "paramd: cannot execute the program\n";
  if (write(STDERR_FILENO, kSentence, sizeof(kSentence) - 1) < 0) _exit(126);
  _exit(127);
}

absl::Status CannotStart(absl::string_view what) {
  return absl::InternalError(absl::StrCat("cannot start a process: ", what,
                                          ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const Options& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotStart("pipe");
  const std::vector<char*> arguments = Pointers(options.arguments);
  const std::vector<char*> environment = Pointers(options.environment);
  const pid_t parent = getpid();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) {
    Become(options.executable.c_str(), arguments.data(), environment.data(),
           ends[1], parent);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return CannotStart("fork");
  }
  // Also done by the child; whoever comes first.
  setpgid(pid, pid);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return ChildProcess(pid, ends[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept { Swap(&other); }

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  Swap(&other);
  return *this;
}

void ChildProcess::Swap(ChildProcess* other) {
  std::swap(pid_, other->pid_);
  std::swap(output_, other->output_);
  std::swap(exit_code_, other->exit_code_);
}

ChildProcess::~ChildProcess() {
  if (output_ >= 0) close(output_);
  if (pid_ < 0 || Poll().has_value()) return;
  Signal(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::optional<int> ChildProcess::Poll() {
  if (exit_code_.has_value() || pid_ < 0) return exit_code_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return absl::nullopt;
  exit_code_ =
      WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return exit_code_;
}

void ChildProcess::Signal(int signal) const {
  if (pid_ > 0 && !exit_code_.has_value()) kill(-pid_, signal);
}

std::vector<std::string> EnvironmentWith(absl::string_view name,
                                         absl::optional<std::string> value) {
  std::vector<std::string> environment;
  const std::string prefix = absl::StrCat(name, "=");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, prefix)) environment.emplace_back(*entry);
  }
  if (value.has_value()) environment.push_back(absl::StrCat(prefix, *value));
  return environment;
}

}  // namespace paramd
