// Small pulls: how many, and how long one takes under load.
#include <atomic>
#include <memory>
#include <thread>

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/lanes/lane.h"

namespace paramd {
namespace {

constexpr int kUnderWay = 32;

void MeasureRate(Report* report) {
  report->Progress("small: alone");
  const auto paramd = MakeParamdLane({sizeof(float)}, /*apply=*/false);
  const auto raw = MakeRawGrpcLane(sizeof(float));
  const int times = report->quick() ? 10000 : 50000;
  const int rounds = report->quick() ? 5 : 7;
  Samples rate, raw_rate, cpu, raw_cpu;
  for (int round = -1; round < rounds; ++round) {
    const Lane::Moved ours = paramd->Move(Transfer::kSmall, times, kUnderWay);
    const Lane::Moved theirs = raw->Move(Transfer::kSmall, times, kUnderWay);
    if (round < 0) continue;
    rate.Add(times / ours.seconds);
    raw_rate.Add(times / theirs.seconds);
    cpu.Add(1e6 * ours.cpu_seconds / times);
    raw_cpu.Add(1e6 * theirs.cpu_seconds / times);
  }
  report->Add({"rps_over_empty_grpc", "1/s", rate,
               Figure::Peer{"empty raw gRPC", raw_rate}});
  report->Add({"cpu_over_empty_grpc", "CPU-us", cpu,
               Figure::Peer{"empty raw gRPC", raw_cpu}});
}

void MeasureLoad(Report* report) {
  report->Progress("small: under load");
  const auto [small, bulk] =
      MakeTwoParamdLanes({sizeof(float), uint64_t{64} << 20});
  const int times = 5000;  // Of fewer the 99th percentile is a few hiccups.
  const int rounds = report->quick() ? 5 : 7;
  Samples p50, p99, loaded_p50, loaded_p99;
  for (int round = -1; round < rounds; ++round) {
    const Lane::Moved alone = small->Move(Transfer::kSmall, times);
    std::atomic<bool> enough{false};
    std::thread load([&bulk = *bulk, &enough] {
      while (!enough) bulk.Move(Transfer::kPush, 2);
    });
    const Lane::Moved loaded = small->Move(Transfer::kSmall, times);
    enough = true;
    load.join();
    if (round < 0) continue;
    p50.Add(1e6 * alone.p50_seconds);
    p99.Add(1e6 * alone.p99_seconds);
    loaded_p50.Add(1e6 * loaded.p50_seconds);
    loaded_p99.Add(1e6 * loaded.p99_seconds);
  }
  report->Add({"p50_under_load_over_alone", "us", loaded_p50,
               Figure::Peer{"alone", p50}});
  report->Add({"p99_under_load_over_alone", "us", loaded_p99,
               Figure::Peer{"alone", p99}});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("small", argc, argv);
  if (report.Wants("alone")) paramd::MeasureRate(&report);
  if (report.Wants("load")) paramd::MeasureLoad(&report);
}
