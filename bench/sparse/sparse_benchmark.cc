// Rows of a sparse variable: how many, and how long few of them take.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/lanes/lane.h"

namespace paramd {
namespace {

constexpr uint64_t kTableFloats = uint64_t{160} << 20;
constexpr uint64_t kManyRows = 100000;
constexpr uint64_t kFewRows = 32;

// Millions of rows that one thread copies out of a table of the same size in a
// second: no server can be faster.
class LocalTable {
 public:
  explicit LocalTable(uint64_t width)
      : width_(width), table_(kTableFloats, 1), rows_(kManyRows * width) {
    RandomStream random(7);
    for (uint64_t row = 0; row < kManyRows; ++row) {
      from_.push_back(random.Below(kTableFloats / width) * width);
    }
  }

  double Rate(int times) {
    const Time start = MonotonicNow();
    for (int i = 0; i < times; ++i) {
      for (uint64_t row = 0; row < kManyRows; ++row) {
        std::memcpy(&rows_[row * width_], &table_[from_[row]],
                    width_ * sizeof(float));
      }
    }
    return 1e-6 * times * kManyRows /
           absl::ToDoubleSeconds(MonotonicNow() - start);
  }

 private:
  const uint64_t width_;
  std::vector<float> table_;
  std::vector<float> rows_;
  std::vector<uint64_t> from_;
};

// `keys`: for each row, above 0, if rows are named by keys. With more than one
// most pushes evict.
void MeasureRows(uint64_t width, uint64_t keys, Report* report) {
  const std::string what =
      keys == 0   ? absl::StrCat("of_", width)
      : keys == 1 ? absl::StrCat("by_key_of_", width)
                  : absl::StrCat("of_", keys, "_keys_a_row_of_", width);
  report->Progress(absl::StrCat("sparse: rows ", what));
  const auto lane = MakeRowsLane({.rows = kTableFloats / width,
                                  .width = width,
                                  .rows_moved = kManyRows,
                                  .keys = keys * kTableFloats / width});
  const int times = report->quick() ? 20 : 100;
  const int rounds = report->quick() ? 3 : 7;
  LocalTable local(width);
  Samples looked_up, pushed, copied;
  for (int round = -1; round < rounds; ++round) {
    const double rate = local.Rate(times);
    const Lane::Moved push = lane->Move(Transfer::kPush, times);
    const Lane::Moved pull = lane->Move(Transfer::kPull, times);
    if (round < 0) continue;
    looked_up.Add(1e-6 * times * kManyRows / pull.cpu_seconds);
    pushed.Add(1e-6 * times * kManyRows / push.cpu_seconds);
    copied.Add(rate);
  }
  const Figure::Peer peer = {"memcpy in one thread", copied};
  report->Add({absl::StrCat("lookups_", what), "M rows/CPU-s", looked_up, peer});
  report->Add({absl::StrCat("pushes_", what), "M rows/CPU-s", pushed, peer});
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
    for (const uint64_t width : {16, 64}) {
      paramd::MeasureRows(width, 0, &report);
      paramd::MeasureRows(width, 1, &report);
    }
    paramd::MeasureRows(16, 2, &report);
  }
  if (report.Wants("small")) paramd::MeasureFew(&report);
}
