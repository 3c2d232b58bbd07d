#include "bench/lanes/lane.h"

#include <sched.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/check.h"
#include "bench/harness/samples.h"

namespace paramd {
namespace {

// By Transfer.
constexpr absl::string_view kNames[] = {"push", "pull", "step", "small"};

}  // namespace

Lane::Moved Lane::Move(Transfer transfer, int times, int under_way) {
  const double cpu = CpuSeconds();
  const double faults = PageFaults();
  std::istringstream answer(client_->Call(absl::StrCat(
      kNames[static_cast<int>(transfer)], " ", times, " ", under_way)));
  Moved moved;
  answer >> moved.seconds >> moved.p50_seconds >> moved.p99_seconds;
  CHECK(!answer.fail(), "the client answered with three numbers");
  moved.cpu_seconds = CpuSeconds() - cpu;
  moved.page_faults = PageFaults() - faults;
  return moved;
}

double Lane::CpuSeconds() const {
  return server_->CpuSeconds() + client_->CpuSeconds();
}

double Lane::PageFaults() const {
  return static_cast<double>(server_->MinorFaults() + client_->MinorFaults());
}

MoveRequest ParseMoveRequest(const std::string& line) {
  std::istringstream in(line);
  std::string what;
  MoveRequest request;
  in >> what >> request.times >> request.under_way;
  const auto* const name =
      std::find(std::begin(kNames), std::end(kNames), what);
  CHECK(!in.fail() && name != std::end(kNames), "a client is asked to move");
  request.transfer = static_cast<Transfer>(name - std::begin(kNames));
  return request;
}

void Place(CpuPlacement placement, bool server) {
  cpu_set_t allowed;
  CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0,
        "the process may ask where it may run");
  if (placement == CpuPlacement::kAnywhere || CPU_COUNT(&allowed) < 2) return;
  int left = server ? 0 : 1;
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed) || left-- > 0) ++cpu;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  CHECK(sched_setaffinity(0, sizeof(one), &one) == 0,
        "the process may stay where it may run");
}

std::string MovedLine(double elapsed, const std::vector<double>& seconds) {
  Samples samples;
  for (const double each : seconds) samples.Add(each);
  return absl::StrCat(elapsed, " ", samples.Median(), " ",
                      samples.Quantile(0.99));
}

}  // namespace paramd
