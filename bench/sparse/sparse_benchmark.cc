// Rows of a sparse variable: how many, and how long few of them take.
#include <memory>

#include "absl/strings/str_cat.h"

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/lanes/lane.h"

namespace paramd {
namespace {

constexpr uint64_t kTableFloats = uint64_t{160} << 20;
constexpr uint64_t kManyRows = 100000;
constexpr uint64_t kFewRows = 32;

void MeasureRows(uint64_t width, Report* report) {
  report->Progress(absl::StrCat("sparse: rows of ", width));
  const auto lane = MakeRowsLane({.rows = kTableFloats / width,
                                  .width = width,
                                  .rows_moved = kManyRows});
  const int times = report->quick() ? 20 : 100;
  const int rounds = report->quick() ? 3 : 7;
  Samples looked_up, pushed;
  for (int round = -1; round < rounds; ++round) {
    const Lane::Moved pull = lane->Move(Transfer::kPull, times);
    const Lane::Moved push = lane->Move(Transfer::kPush, times);
    if (round < 0) continue;
    looked_up.Add(1e-6 * times * kManyRows / pull.cpu_seconds);
    pushed.Add(1e-6 * times * kManyRows / push.cpu_seconds);
  }
  report->Add({absl::StrCat("lookups_of_", width), "M rows/CPU-s", looked_up});
  report->Add({absl::StrCat("pushes_of_", width), "M rows/CPU-s", pushed});
}

void MeasureFew(Report* report) {
  report->Progress("sparse: few rows");
  const auto lane = MakeRowsLane({.rows = kTableFloats / 16,
                                  .width = 16,
                                  .rows_moved = kFewRows});
  const auto tcp = MakeTcpLane(kFewRows * 16 * sizeof(float));
  const int times = report->quick() ? 1000 : 5000;
  const int rounds = report->quick() ? 3 : 7;
  Samples ours, trips;
  for (int round = -1; round < rounds; ++round) {
    const Lane::Moved pull = lane->Move(Transfer::kPull, times);
    const Lane::Moved trip = tcp->Move(Transfer::kPull, times);
    if (round < 0) continue;
    ours.Add(1e6 * pull.p50_seconds);
    trips.Add(1e6 * trip.p50_seconds);
  }
  report->Add({"p50_of_32_rows_over_tcp", "us", ours,
               Figure::Peer{"TCP", trips}});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("sparse", argc, argv);
  if (report.Wants("rows")) {
    paramd::MeasureRows(16, &report);
    paramd::MeasureRows(64, &report);
  }
  if (report.Wants("small")) paramd::MeasureFew(&report);
}
