#include "cli/local/supervisor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/clock.h"
#include "process/exit_code.h"

namespace paramd {
namespace {

// What processes have left to end whose chief is gone.
constexpr absl::Duration kWithoutChief = absl::Seconds(1);

}  // namespace

void CatchSupervisorSignals() {
  SignalPipe::Catch({SIGINT, SIGTERM, SIGHUP, SIGCHLD});
}

Supervisor::Supervisor(Options options, std::vector<SupervisedTask> tasks)
    : options_(std::move(options)) {
  for (SupervisedTask& task : tasks) {
    auto slot = std::make_unique<Slot>(options_.restarts);
    slot->task = std::move(task);
    slots_.push_back(std::move(slot));
  }
}

Supervisor::~Supervisor() {
  for (const auto& slot : slots_) {
    if (slot->log != nullptr) std::fclose(slot->log);
  }
}

Supervisor::Outcome Supervisor::Run() {
  const Time now = MonotonicNow();
  next_tick_ = now + options_.tick;
  for (const auto& slot : slots_) slot->start_at = now;
  while (true) {
    StartDue();
    Reap();
    CheckDeadline();
    // Every end that Reap saw may have changed the phase.
    const bool more_to_start =
        phase_ == Phase::kRunning &&
        std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
          return slot->start_at != Time::Never();
        });
    if (!AnyRunning() && !more_to_start) return outcome_;
    Wait();
    HandleSignals();
    if (MonotonicNow() >= next_tick_) {
      next_tick_ = MonotonicNow() + options_.tick;
      if (options_.on_tick) options_.on_tick();
    }
  }
}

absl::optional<pid_t> Supervisor::Kill(const std::string& task) {
  for (const auto& slot : slots_) {
    if (slot->task.name != task || !slot->process.has_value()) continue;
    slot->process->Signal(SIGKILL);
    return slot->process->pid();
  }
  return absl::nullopt;
}

std::vector<TaskState> Supervisor::States() const {
  std::vector<TaskState> states;
  for (const auto& slot : slots_) states.push_back(slot->state);
  return states;
}

void Supervisor::StartDue() {
  if (phase_ != Phase::kRunning) return;
  const Time now = MonotonicNow();
  for (const auto& slot : slots_) {
    if (slot->start_at <= now && phase_ == Phase::kRunning) {
      StartTask(slot.get());
    }
  }
}

void Supervisor::StartTask(Slot* slot) {
  slot->start_at = Time::Never();
  if (slot->log == nullptr && !options_.log_directory.empty()) {
    const std::string path =
        absl::StrCat(options_.log_directory, "/", slot->task.name, ".log");
    slot->log = std::fopen(path.c_str(), "ae");
    if (slot->log == nullptr) Say(absl::StrCat("cannot write ", path));
  }
  ChildProcess::Options options = slot->task.process;
  if (options_.more_arguments) {
    for (std::string& argument : options_.more_arguments(slot->task)) {
      options.arguments.push_back(std::move(argument));
    }
  }
  auto process = ChildProcess::Start(options);
  if (!process.ok()) {
    Stop({.exit_code = kExitFailed,
          .sentence =
              absl::StrCat(slot->task.name, ": ", process.status().message())});
    return;
  }
  slot->process.emplace(*std::move(process));
  slot->state.kind = TaskState::Kind::kRunning;
}

// Reads at most a megabyte, so that a task that prints for ever does not keep
// the supervisor from its other duties.
void Supervisor::ReadOutput(Slot* slot) {
  char bytes[16 << 10];
  for (int turns = 0; turns < 64; ++turns) {
    const ssize_t count = read(slot->process->output(), bytes, sizeof(bytes));
    if (count <= 0) return;
    absl::string_view rest(bytes, count);
    for (size_t end; (end = rest.find('\n')) != absl::string_view::npos;) {
      slot->unfinished_line.append(rest.data(), end);
      EmitLine(slot);
      rest.remove_prefix(end + 1);
    }
    slot->unfinished_line.append(rest.data(), rest.size());
    if (slot->unfinished_line.size() > kLongestLine) {
      EmitLine(slot);
    }
  }
}

void Supervisor::EmitLine(Slot* slot) {
  std::string line;
  line.swap(slot->unfinished_line);
  if (slot->log != nullptr) {
    std::fprintf(slot->log, "%s\n", line.c_str());
    std::fflush(slot->log);
  }
  if (options_.on_line) options_.on_line(slot->task.name, line);
  slot->last_lines.push_back(std::move(line));
  if (slot->last_lines.size() > kLastLines) slot->last_lines.pop_front();
}

void Supervisor::Reap() {
  for (const auto& slot : slots_) {
    if (!slot->process.has_value()) continue;
    const absl::optional<int> exit_code = slot->process->Poll();
    // What it printed last is there once it is dead, so this read comes after.
    ReadOutput(slot.get());
    if (!exit_code.has_value()) continue;
    if (!slot->unfinished_line.empty()) {
      EmitLine(slot.get());
    }
    slot->process.reset();
    OnExit(slot.get(), *exit_code);
  }
}

void Supervisor::OnExit(Slot* slot, int exit_code) {
  slot->state.exit_code = exit_code;
  slot->state.kind =
      exit_code == 0 ? TaskState::Kind::kFinished : TaskState::Kind::kFailed;
  if (phase_ == Phase::kStopping || phase_ == Phase::kKilled) {
    return BlameChief(*slot, exit_code);
  }
  if (exit_code != 0) return OnFailure(slot, exit_code);
  if (!slot->task.is_chief || phase_ != Phase::kRunning) return;
  phase_ = Phase::kFinishing;
  deadline_ = MonotonicNow() + options_.finish_grace;
  // What waits to be restarted has nothing to come back to.
  for (const auto& other : slots_) other->start_at = Time::Never();
}

// A chief that fails tells all others, who may end before it does.
void Supervisor::BlameChief(const Slot& slot, int exit_code) {
  if (!slot.task.is_chief || exit_code != outcome_.exit_code ||
      (exit_code != kExitFailed && exit_code != kExitBadConfiguration)) {
    return;
  }
  outcome_.sentence = absl::StrCat(slot.task.name, " exited ", exit_code);
  outcome_.last_lines = {slot.last_lines.begin(), slot.last_lines.end()};
}

void Supervisor::OnFailure(Slot* slot, int exit_code) {
  const std::string& name = slot->task.name;
  if (phase_ == Phase::kFinishing) {
    Say(absl::StrCat(name, " exited ", exit_code,
                     " after the job had finished"));
    return;
  }
  if (exit_code == kExitBadConfiguration && options_.is_port_taken &&
      options_.is_port_taken(slot->task)) {
    Stop({.exit_code = kExitBadConfiguration,
          .sentence = absl::StrCat("the port of ", name, " is in use"),
          .port_taken = true});
    return;
  }
  if (slot->policy.OnExit(exit_code) == RestartPolicy::Verdict::kRestart) {
    slot->state.kind = TaskState::Kind::kWaitingToRestart;
    slot->state.restarts = slot->policy.restarts();
    slot->start_at = MonotonicNow() + slot->policy.wait();
    Say(absl::StrCat(name, " exited ", exit_code, "; restart ",
                     slot->policy.restarts(), " of ",
                     options_.restarts.most_restarts, " in ",
                     absl::FormatDuration(slot->policy.wait())));
    return;
  }
  const bool gave_up = RestartPolicy::IsWorthRestarting(exit_code);
  const bool says_why =
      exit_code == kExitBadConfiguration || exit_code == kExitRetry;
  Stop({.exit_code = says_why ? exit_code : kExitFailed,
        .sentence = absl::StrCat(
            name, " exited ", exit_code,
            gave_up ? absl::StrCat(" and its ", slot->policy.restarts(),
                                   " restarts are used up")
                    : ""),
        .last_lines = {slot->last_lines.begin(), slot->last_lines.end()}});
}

void Supervisor::Stop(Outcome outcome) {
  outcome_ = std::move(outcome);
  phase_ = Phase::kStopping;
  bool chief_is_gone = false;
  for (const auto& slot : slots_) {
    slot->start_at = Time::Never();
    chief_is_gone |= slot->task.is_chief && !slot->process.has_value();
  }
  deadline_ = MonotonicNow() + options_.drain_timeout;
  overdue_ = "did not stop in time";
  if (chief_is_gone && kWithoutChief < options_.drain_timeout) {
    deadline_ = MonotonicNow() + kWithoutChief;
    overdue_ = "can save nothing without the chief";
  }
  SignalAll(SIGTERM);
}

void Supervisor::OnSignal(int signal) {
  if (signal == SIGCHLD) return;
  switch (signals_.Take(MonotonicNow())) {
    case StopSignals::Verdict::kFirst:
      return StopFor(signal);
    case StopSignals::Verdict::kRepeat:
      return;
    case StopSignals::Verdict::kSecond:
      if (phase_ != Phase::kStopping) return;
      deadline_ = MonotonicNow();
      overdue_ = absl::StrCat("did not stop before a second signal, ",
                              SignalName(signal));
  }
}

void Supervisor::StopFor(int signal) {
  if (phase_ != Phase::kRunning && phase_ != Phase::kFinishing) {
    Say(absl::StrCat(SignalName(signal),
                     ": stopping already; again in two seconds kills"));
    return;
  }
  Stop({.exit_code = signal == SIGINT ? kExitInterrupted : kExitStopped,
        .sentence = signal == SIGINT ? "interrupted" : "stopped"});
}

void Supervisor::HandleSignals() {
  while (const int signal = SignalPipe::Take()) OnSignal(signal);
}

void Supervisor::CheckDeadline() {
  if (MonotonicNow() < deadline_ || !AnyRunning()) return;
  std::vector<std::string> names;
  for (const auto& slot : slots_) {
    if (slot->process.has_value()) names.push_back(slot->task.name);
  }
  deadline_ = Time::Never();
  if (phase_ == Phase::kFinishing) {
    Say(absl::StrCat(absl::StrJoin(names, ", "), " did not end within ",
                     absl::FormatDuration(options_.finish_grace),
                     " of the chief; killed"));
  } else {
    Say(absl::StrCat(absl::StrJoin(names, ", "), " ", overdue_, "; killed"));
  }
  phase_ = Phase::kKilled;
  SignalAll(SIGKILL);
}

void Supervisor::SignalAll(int signal) {
  for (const auto& slot : slots_) {
    if (slot->process.has_value()) slot->process->Signal(signal);
  }
}

void Supervisor::Wait() {
  std::vector<pollfd> fds = {{SignalPipe::fd(), POLLIN, 0}};
  Time until = std::min(next_tick_, deadline_);
  for (const auto& slot : slots_) {
    if (slot->process.has_value()) {
      fds.push_back({slot->process->output(), POLLIN, 0});
    }
    until = std::min(until, slot->start_at);
  }
  const absl::Duration left =
      std::max(until - MonotonicNow(), absl::ZeroDuration());
  poll(fds.data(), fds.size(),
       static_cast<int>(
           absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
  // A task that has closed its output but lives on would end every poll at
  // once.
  const bool hung_up = std::any_of(fds.begin(), fds.end(), [](pollfd& fd) {
    return (fd.revents & POLLIN) == 0 && (fd.revents & POLLHUP) != 0;
  });
  if (hung_up) poll(fds.data(), 1, 10);
}

bool Supervisor::AnyRunning() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->process.has_value();
  });
}

void Supervisor::Say(const std::string& sentence) const {
  if (options_.on_event) options_.on_event(sentence);
}

}  // namespace paramd
