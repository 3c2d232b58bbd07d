// What a coordinator costs for each member, as the job grows.
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/scale/simulated_job.h"

namespace paramd {
namespace {

constexpr uint32_t kSizes[] = {10, 30, 100, 300, 1000};
// Of larger ones a minute is measured, as with --quick of those up to here.
constexpr uint32_t kQuickly = 100;
constexpr absl::Duration kLossEvery = absl::Minutes(1);
constexpr absl::Duration kBackAfter = absl::Seconds(20);

// Of one size, each for a member.
struct Cost {
  double cpu_us = 0;  // A simulated second.
  double bytes = 0;   // The same.
  double memory = 0;
  double take_over_ms = 0;      // In all, simulated.
  double take_over_cpu_us = 0;  // In that time.
  double take_over_messages = 0;
  double begin_cpu_us = 0;  // Until all members are there.
  double begin_messages = 0;
  double begin_bytes = 0;
};

// A server is lost ten seconds into each minute.
Cost CostOf(uint32_t servers, int minutes) {
  SimulatedJob job(servers);
  job.Begin();
  const CoordinatorWork begin = job.work();
  job.Run(absl::Seconds(15));
  const CoordinatorWork before = job.work();
  for (int minute = 0; minute < minutes; ++minute) {
    job.Run(absl::Seconds(10));
    job.Lose(1 + 3 * minute, kBackAfter);
    job.Run(kLossEvery - absl::Seconds(10));
  }
  const CoordinatorWork work = job.work() - before;
  const double members = job.members();
  const double each = members * minutes * absl::ToDoubleSeconds(kLossEvery);
  Cost cost;
  cost.begin_cpu_us = begin.cpu_s * 1e6 / members;
  cost.begin_messages = static_cast<double>(begin.messages) / members;
  cost.begin_bytes = static_cast<double>(begin.bytes) / members;
  cost.cpu_us = work.cpu_s * 1e6 / each;
  cost.bytes = static_cast<double>(work.bytes) / each;
  for (const TakeOverSeen& seen : job.take_overs()) {
    const double share = 1.0 / static_cast<double>(job.take_overs().size());
    cost.take_over_ms += share * absl::ToDoubleMilliseconds(seen.took);
    cost.take_over_cpu_us += share * seen.work.cpu_s * 1e6 / members;
    cost.take_over_messages +=
        share * static_cast<double>(seen.work.messages) / members;
  }
  cost.memory = static_cast<double>(job.End()) / members;
  return cost;
}

void Add(const std::string& metric, const std::string& unit, double value,
         Report* report) {
  Samples one;
  one.Add(value);
  report->Add({metric, unit, one, {}});
}

void AddSize(uint32_t servers, const Cost& cost, Report* report) {
  const auto add = [&](const char* what, const char* unit, double value) {
    Add(absl::StrCat("servers_", servers, ".", what), unit, value, report);
  };
  add("cpu_us_per_member_second", "us", cost.cpu_us);
  add("bytes_per_member_second", "B", cost.bytes);
  add("memory_per_member", "B", cost.memory);
  add("take_over_ms", "ms", cost.take_over_ms);
  add("take_over_cpu_us_per_member", "us", cost.take_over_cpu_us);
  add("take_over_messages_per_member", "", cost.take_over_messages);
  add("begin_cpu_us_per_member", "us", cost.begin_cpu_us);
  add("begin_messages_per_member", "", cost.begin_messages);
  add("begin_bytes_per_member", "B", cost.begin_bytes);
}

// The largest job over the smallest, by their servers.
void AddRatios(const std::map<uint32_t, Cost>& costs, Report* report) {
  const auto& [fewest, small] = *costs.begin();
  const auto& [most, large] = *costs.rbegin();
  const std::string jobs = absl::StrCat("_", most, "_over_", fewest);
  const std::string peer = absl::StrCat(fewest, " servers");
  const auto add = [&](const char* what, double of_large, double of_small) {
    Samples values, peers;
    values.Add(of_large);
    peers.Add(of_small);
    report->Add(
        {absl::StrCat(what, jobs), "", values, Figure::Peer{peer, peers}});
  };
  add("coordinator_cpu_per_member", large.cpu_us, small.cpu_us);
  add("bytes_per_member", large.bytes, small.bytes);
  add("take_over", large.take_over_ms, small.take_over_ms);
  add("take_over_cpu_per_member", large.take_over_cpu_us,
      small.take_over_cpu_us);
}

void Measure(Report* report) {
  std::map<uint32_t, Cost> costs;
  for (const uint32_t servers : kSizes) {
    if (!report->Wants(absl::StrCat(servers))) continue;
    if (report->quick() && servers > kQuickly) continue;
    report->Progress(absl::StrCat("scale: ", servers, " servers"));
    const int minutes = report->quick() || servers > kQuickly ? 1 : 2;
    costs[servers] = CostOf(servers, minutes);
    AddSize(servers, costs[servers], report);
  }
  if (costs.size() > 1) AddRatios(costs, report);
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("scale", argc, argv);
  paramd::Measure(&report);
}
