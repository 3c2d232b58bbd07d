#include "process/observe/process_loads.h"

#include <utility>

#include "process/observe/process_row.h"

namespace paramd {
namespace {

using Process = v1::StatusPage::Process;

// Who uses less of a processor does next to nothing.
constexpr float kIdlePercent = 10;
// Whoever waits for its input for longer than it computes.
constexpr float kStarvedPercent = 50;

}  // namespace

void ProcessLoads::Add(const v1::ClusterReport& report) {
  std::map<std::string, Counts> counts;
  loads_.clear();
  for (int i = 0; i < report.processes_size(); ++i) {
    const v1::ProcessAnswer& answer = report.processes(i);
    if (!answer.has_status()) continue;
    const v1::Member* const member =
        report.has_job() ? &report.job().members(i) : nullptr;
    const std::string name = RowOf(answer, member).name;
    const Counts& is = counts[name] = CountsOf(answer.status());
    const auto was = counts_.find(name);
    if (was == counts_.end()) continue;
    const absl::optional<Load> load = LoadBetween(was->second, is);
    if (load.has_value()) loads_[name] = *load;
  }
  counts_ = std::move(counts);
}

ProcessLoads::Counts ProcessLoads::CountsOf(const v1::StatusReply& status) {
  Counts counts;
  counts.incarnation = status.incarnation();
  counts.uptime_ms = status.uptime_ms();
  counts.processor_ms = status.processor_ms();
  for (const v1::CallStats& call : status.calls()) {
    counts.bytes += call.received_bytes() + call.sent_bytes();
  }
  counts.input_wait = status.worker().input().wait_seconds();
  counts.input_elapsed = status.worker().input().elapsed_seconds();
  return counts;
}

absl::optional<ProcessLoads::Load> ProcessLoads::LoadBetween(const Counts& was,
                                                             const Counts& is) {
  if (was.incarnation != is.incarnation || is.uptime_ms <= was.uptime_ms ||
      is.processor_ms < was.processor_ms || is.bytes < was.bytes) {
    return absl::nullopt;
  }
  const auto ms = static_cast<float>(is.uptime_ms - was.uptime_ms);
  Load load;
  load.busy_percent =
      100 * static_cast<float>(is.processor_ms - was.processor_ms) / ms;
  load.bytes_per_second = 1000 * static_cast<float>(is.bytes - was.bytes) / ms;
  const double elapsed = is.input_elapsed - was.input_elapsed;
  const double waited = is.input_wait - was.input_wait;
  if (elapsed > 0 && waited >= 0) {
    load.input_wait_percent = static_cast<float>(100 * waited / elapsed);
  }
  return load;
}

void ProcessLoads::Fill(Process* process) const {
  const auto found = loads_.find(process->name());
  if (found == loads_.end()) return;
  const Load& load = found->second;
  process->set_busy_percent(load.busy_percent);
  process->set_bytes_per_second(load.bytes_per_second);
  const float starved = load.input_wait_percent.value_or(0);
  if (load.input_wait_percent.has_value()) {
    process->set_input_wait_percent(starved);
  }
  process->set_load(process->state() == "waits" || starved >= kStarvedPercent
                        ? Process::WAITING
                    : load.busy_percent < kIdlePercent ? Process::IDLE
                                                       : Process::BUSY);
}

}  // namespace paramd
