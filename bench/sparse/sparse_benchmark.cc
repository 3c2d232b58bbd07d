// Rows of a sparse variable: how many, and how long few of them take.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/clock.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/lanes/lane.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

constexpr uint64_t kTableFloats = uint64_t{160} << 20;
constexpr uint64_t kManyRows = 100000;
constexpr uint64_t kFewRows = 32;
// As the lane has: so many rows lie in no cache.
constexpr uint64_t kDraws = 100;

// Millions of rows that one thread copies out of a table of the same size in a
// second, `keyed`: found in an absl::flat_hash_map; no server can be faster.
class LocalTable {
 public:
  LocalTable(uint64_t width, bool keyed)
      : width_(width), table_(kTableFloats, 1), rows_(kManyRows * width) {
    const uint64_t rows = kTableFloats / width;
    for (uint64_t row = 0; keyed && row < rows; ++row) {
      place_.emplace(MixKey(row), row * width);
    }
    RandomStream random(7);
    for (uint64_t i = 0; i < kDraws * kManyRows; ++i) {
      const uint64_t row = random.Below(rows);
      from_.push_back(keyed ? MixKey(row) : row * width);
    }
  }

  double Rate(int times) {
    const Time start = MonotonicNow();
    for (int i = 0; i < times; ++i) {
      const uint64_t* const from = &from_[i % kDraws * kManyRows];
      for (uint64_t row = 0; row < kManyRows; ++row) {
        const uint64_t place =
            place_.empty() ? from[row] : place_.find(from[row])->second;
        std::memcpy(&rows_[row * width_], &table_[place],
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
  std::vector<uint64_t> from_;  // Places in the table, or keys.
  absl::flat_hash_map<uint64_t, uint64_t> place_;
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
  LocalTable local(width, keys > 0);
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
  const Figure::Peer peer = {
      keys > 0 ? "flat_hash_map in one thread" : "memcpy in one thread",
      copied};
  report->Add(
      {absl::StrCat("lookups_", what), "M rows/CPU-s", looked_up, peer});
  report->Add({absl::StrCat("pushes_", what), "M rows/CPU-s", pushed, peer});
}

// As a step of a recommender names them: few keys in each of 640 blocks.
void MeasureSpread(Report* report) {
  constexpr uint64_t kRows = kTableFloats / 16;
  const int rounds = report->quick() ? 3 : 7;
  for (const uint64_t keys : {2000, 10000}) {
    report->Progress(absl::StrCat("sparse: ", keys, " keys a request"));
    const auto lane = MakeRowsLane(
        {.rows = kRows, .width = 16, .rows_moved = keys, .keys = kRows});
    const int times =
        static_cast<int>((report->quick() ? 1000000 : 5000000) / keys);
    Samples looked_up, pushed;
    for (int round = -1; round < rounds; ++round) {
      const Lane::Moved push = lane->Move(Transfer::kPush, times);
      const Lane::Moved pull = lane->Move(Transfer::kPull, times);
      if (round < 0) continue;
      looked_up.Add(1e-6 * times * keys / pull.cpu_seconds);
      pushed.Add(1e-6 * times * keys / push.cpu_seconds);
    }
    report->Add({absl::StrCat("lookups_of_", keys, "_keys"), "M rows/CPU-s",
                 looked_up, absl::nullopt});
    report->Add({absl::StrCat("pushes_of_", keys, "_keys"), "M rows/CPU-s",
                 pushed, absl::nullopt});
  }
}

void MeasureFew(Report* report) {
  report->Progress("sparse: few rows");
  const auto lane = MakeRowsLane(
      {.rows = kTableFloats / 16, .width = 16, .rows_moved = kFewRows});
  constexpr uint64_t kBytes = kFewRows * 16 * sizeof(float);
  const auto tcp = MakeTcpLane(kBytes);
  const auto grpc = MakeRawGrpcLane(kBytes);
  const int times = report->quick() ? 1000 : 5000;
  const int rounds = report->quick() ? 3 : 7;
  Samples ours, trips, calls;
  for (int round = -1; round < rounds; ++round) {
    const Lane::Moved pull = lane->Move(Transfer::kPull, times);
    const Lane::Moved trip = tcp->Move(Transfer::kPull, times);
    const Lane::Moved call = grpc->Move(Transfer::kPull, times);
    if (round < 0) continue;
    ours.Add(1e6 * pull.p50_seconds);
    trips.Add(1e6 * trip.p50_seconds);
    calls.Add(1e6 * call.p50_seconds);
  }
  report->Add(
      {"p50_of_32_rows_over_tcp", "us", ours, Figure::Peer{"TCP", trips}});
  report->Add({"p50_of_32_rows_over_grpc", "us", ours,
               Figure::Peer{"a call of raw gRPC", calls}});
}

// The same of a table of 8 GB, values and Adagrad's sums, beside one of 1 GB.
void MeasureGrowth(Report* report) {
  constexpr uint64_t kGigabyte = uint64_t{1} << 30;
  const auto table = [report](uint64_t bytes) {
    report->Progress(absl::StrCat("sparse: few rows of ", bytes >> 20, " MB"));
    return MakeRowsLane({.rows = bytes / (2 * 16 * sizeof(float)),
                         .width = 16,
                         .rows_moved = kFewRows});
  };
  const auto large = table(report->quick() ? kGigabyte : 8 * kGigabyte);
  const auto small = table(report->quick() ? kGigabyte / 8 : kGigabyte);
  const int times = report->quick() ? 1000 : 5000;
  Samples of_large, of_small;
  for (int round = -1; round < (report->quick() ? 3 : 7); ++round) {
    const Lane::Moved more = large->Move(Transfer::kPull, times);
    const Lane::Moved less = small->Move(Transfer::kPull, times);
    if (round < 0) continue;
    of_large.Add(1e6 * more.p50_seconds);
    of_small.Add(1e6 * less.p50_seconds);
  }
  report->Add({"p50_of_32_rows_of_8_gb", "us", of_large,
               Figure::Peer{"a table of 1 GB", of_small}});
}

// Steps with keys by Zipf's law, each a lookup and a push: rows that mostly lie
// on a disk, in place of a table of a tenth of them wholly in memory.
void MeasureDisk(Report* report) {
  const uint64_t keys = report->quick() ? 1000000 : 10000000;
  const int times = report->quick() ? 30 : 100;
  const auto rate = [&](const Table& table) {
    report->Progress(absl::StrCat("sparse: ", table.keys, " rows, ",
                                  table.memory_rows, " in memory"));
    const auto lane = MakeRowsLane(table);
    lane->Move(Transfer::kPush,
               static_cast<int>(table.keys / table.rows_moved));
    lane->Move(Transfer::kStep, times);
    Samples rates;
    for (int round = 0; round < (report->quick() ? 3 : 7); ++round) {
      const Lane::Moved moved = lane->Move(Transfer::kStep, times);
      rates.Add(1e-6 * kManyRows / moved.p50_seconds);
    }
    return rates;
  };
  Table table = {.rows = RowsForKeys(keys, 8),
                 .width = 8,
                 .rows_moved = kManyRows,
                 .keys = keys,
                 .zipf = 1.05};
  const Samples in_memory = rate(table);
  table.keys *= 10;
  table.memory_rows = table.keys / 6;
  // Some buckets have more keys than others, and some rows are spare.
  table.rows = RowsForKeys(table.keys / 10 * 11, 8);
  table.disk_directory = "/var/tmp";
  table.memory_limit_bytes = 400 * keys;
  report->Add({"steps_mostly_on_disk_of_8", "M keys/s", rate(table),
               Figure::Peer{"a tenth of the rows, in memory", in_memory}});
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
  if (report.Wants("spread")) paramd::MeasureSpread(&report);
  if (report.Wants("small")) paramd::MeasureFew(&report);
  if (report.Wants("growth")) paramd::MeasureGrowth(&report);
  if (report.Wants("disk")) paramd::MeasureDisk(&report);
}
