// Steps that compute nothing: all weights are pulled and a gradient for all of
// them is pushed and applied, beside plain TCP moving the same bytes.
#include <memory>
#include <string>
#include <vector>

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/lanes/lane.h"

namespace paramd {
namespace {

struct Step {
  std::string name;
  std::vector<uint64_t> variables;
  uint64_t bytes;
  CpuPlacement placement;
  int times;
};

void Measure(const Step& step, Report* report) {
  report->Progress("step: " + step.name);
  const auto paramd = MakeParamdLane(step.variables, /*apply=*/true,
                                     {.placement = step.placement});
  const auto tcp = MakeTcpLane(step.bytes, step.placement);
  Samples seconds, tcp_seconds, cpu, tcp_cpu;
  const int rounds = report->quick() ? 5 : 7;
  for (int round = -1; round < rounds; ++round) {
    const Lane::Moved ours = paramd->Move(Transfer::kStep, step.times);
    const Lane::Moved theirs = tcp->Move(Transfer::kStep, step.times);
    if (round < 0) continue;
    seconds.Add(1e6 * ours.p50_seconds);
    tcp_seconds.Add(1e6 * theirs.p50_seconds);
    cpu.Add(1e6 * ours.cpu_seconds / step.times);
    tcp_cpu.Add(1e6 * theirs.cpu_seconds / step.times);
  }
  report->Add(
      {step.name, "us", seconds, Figure::Peer{tcp->name(), tcp_seconds}});
  report->Add({step.name + ".cpu_us", "CPU-us", cpu,
               Figure::Peer{tcp->name(), tcp_cpu}});
}

// A scalar's step, beside one round trip of TCP between two CPUs.
void MeasureScalar(Report* report) {
  report->Progress("step: null_scalar");
  const auto paramd = MakeParamdLane({sizeof(float)}, /*apply=*/true,
                                     {.placement = CpuPlacement::kApart});
  const auto tcp = MakeTcpLane(sizeof(float), CpuPlacement::kApart);
  Samples seconds, round_trip;
  const int rounds = report->quick() ? 5 : 7;
  for (int round = -1; round < rounds; ++round) {
    const double ours = paramd->Move(Transfer::kStep, 2000).p50_seconds;
    const double theirs = tcp->Move(Transfer::kPull, 5000).p50_seconds;
    if (round < 0) continue;
    seconds.Add(1e6 * ours);
    round_trip.Add(1e6 * theirs);
  }
  report->Add({"null_scalar_over_rtt", "us", seconds,
               Figure::Peer{"TCP round trip", round_trip}});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("step", argc, argv);
  const uint64_t bytes = 100'000'000;
  if (report.Wants("100mb")) {
    paramd::Measure({"null_100mb_over_tcp",
                     {bytes},
                     bytes,
                     paramd::CpuPlacement::kAnywhere,
                     report.quick() ? 5 : 20},
                    &report);
  }
  if (report.Wants("scalar")) paramd::MeasureScalar(&report);
}
