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

constexpr uint32_t kSmallest = 10;
constexpr uint32_t kLargest = 300;
constexpr uint32_t kSizes[] = {kSmallest, 30, 100, kLargest};
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
};

// A server is lost ten seconds into each minute.
Cost CostOf(uint32_t servers, int minutes) {
  SimulatedJob job(servers);
  job.Begin();
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
}

void AddRatio(const std::string& what, double large, double small,
              Report* report) {
  const std::string metric =
      absl::StrCat(what, "_", kLargest, "_over_", kSmallest);
  Samples values, peer;
  values.Add(large);
  peer.Add(small);
  report->Add({metric, "", values,
               Figure::Peer{absl::StrCat(kSmallest, " servers"), peer}});
}

void Measure(Report* report) {
  const int minutes = report->quick() ? 1 : 2;
  std::map<uint32_t, Cost> costs;
  for (const uint32_t servers : kSizes) {
    if (!report->Wants(absl::StrCat(servers))) continue;
    if (report->quick() && servers > 100) continue;
    report->Progress(absl::StrCat("scale: ", servers, " servers"));
    costs[servers] = CostOf(servers, minutes);
    AddSize(servers, costs[servers], report);
  }
  const auto small = costs.find(kSmallest);
  const auto large = costs.find(kLargest);
  if (small == costs.end() || large == costs.end()) return;
  const Cost& a = small->second;
  const Cost& b = large->second;
  AddRatio("coordinator_cpu_per_member", b.cpu_us, a.cpu_us, report);
  AddRatio("bytes_per_member", b.bytes, a.bytes, report);
  AddRatio("take_over", b.take_over_ms, a.take_over_ms, report);
  AddRatio("take_over_cpu_per_member", b.take_over_cpu_us, a.take_over_cpu_us,
           report);
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("scale", argc, argv);
  paramd::Measure(&report);
}
