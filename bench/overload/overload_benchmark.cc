// More asked of a server than it can do, and strangers who do it harm.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/overload/honest_worker.h"
#include "bench/overload/hostile_clients.h"
#include "bench/overload/open_loop.h"
#include "bench/overload/overloaded_server.h"
#include "net/testing/loopback_address.h"

namespace paramd {
namespace {

constexpr double kFirstRate = 300;
constexpr double kLastRate = 100000;

std::string DrawAddress() { return absl::StrCat(DrawLoopbackHost(), ":2222"); }

// Of all servers of the run the most, of what they may.
class Memory {
 public:
  void Add(Child* server) {
    most_ = std::max(most_, ReportOf(server).peak_bytes);
  }
  void AddTo(Report* report) const {
    if (most_ == 0) return;
    Samples most, limit;
    most.Add(1e-6 * static_cast<double>(most_));
    limit.Add(1e-6 * static_cast<double>(kHeldBytes + kReceivedBytes));
    report->Add(
        {"memory_over_limit", "MB", most, Figure::Peer{"limit", limit}});
  }

 private:
  uint64_t most_ = 0;
};

// The rate at which most was good, of rates that rise until the server can't
// follow.
double FindBestRate(const Report& report, Load* load) {
  const absl::Duration each = absl::Seconds(report.quick() ? 0.5 : 2);
  const double growth = report.quick() ? 1.4 : 1.15;
  double best_rate = kFirstRate, best = 0;
  for (double rate = kFirstRate; rate < kLastRate; rate *= growth) {
    report.Progress(absl::StrCat("overload: ", std::round(rate), " a second"));
    const Load::Figures figures = load->Offer(rate, each);
    if (figures.good > best) {
      best = figures.good;
      best_rate = rate;
    }
    if (figures.good < 0.7 * rate) break;
  }
  return best_rate;
}

void MeasureGoodput(Report* report, Memory* memory) {
  const std::string address = DrawAddress();
  const auto server = MakeOverloadedServer(address);
  (void)ReportOf(server.get());  // It listens.
  Load load(address);
  const double best_rate = FindBestRate(*report, &load);
  const absl::Duration length = absl::Seconds(report->quick() ? 2 : 10);
  const int rounds = report->quick() ? 1 : 5;
  Samples peak, peak_p99, twice, twice_p99, due, sent, wanted, after, half;
  for (int round = 0; round < rounds; ++round) {
    report->Progress("overload: at the peak");
    const Load::Figures at_peak = load.Offer(best_rate, length);
    report->Progress("overload: at twice the peak");
    const Load::Figures at_twice = load.Offer(2 * at_peak.good, length);
    const double easy = at_peak.good / 2;
    const Load::Figures behind = load.Offer(easy, length / 2);
    peak.Add(at_peak.good);
    peak_p99.Add(1e3 * at_peak.p99_seconds);
    twice.Add(at_twice.good);
    twice_p99.Add(1e3 * at_twice.p99_seconds);
    wanted.Add(2 * at_peak.good);
    due.Add(at_twice.due);
    sent.Add(at_twice.sent);
    after.Add(behind.good);
    half.Add(easy);
  }
  const double pushes = static_cast<double>(load.Settle());
  const ServerReport told = ReportOf(server.get());
  Samples wrong;
  wrong.Add(static_cast<double>(told.blocks_applied) - pushes);
  report->Add(
      {"goodput_at_twice_over_peak", "1/s", twice, Figure::Peer{"peak", peak}});
  report->Add({"due_at_twice_over_wanted", "1/s", due,
               Figure::Peer{"twice the peak", wanted}});
  report->Add({"sent_at_twice_over_wanted", "1/s", sent,
               Figure::Peer{"twice the peak", wanted}});
  report->Add({"p99_at_twice_over_peak", "ms", twice_p99,
               Figure::Peer{"peak", peak_p99}});
  report->Add({"goodput_afterwards_at_half", "1/s", after,
               Figure::Peer{"half the peak", half}});
  report->Add({"pushes_doubled_or_lost", "", wrong, absl::nullopt});
  memory->Add(server.get());
}

// Steps of a worker beside some kinds of strangers.
HonestWorker::Figures StepsBeside(const std::string& address,
                                  const std::vector<std::string>& kinds,
                                  int times, HonestWorker* worker) {
  const auto strangers = MakeHostileClients(address, kinds);
  strangers->Call("begin");
  absl::SleepFor(absl::Seconds(1));
  const HonestWorker::Figures figures = worker->Step(times);
  strangers->Call("go on");  // They still did.
  return figures;
}

// Steps alone and beside strangers, in turns.
class Beside {
 public:
  Beside(std::string name, std::vector<std::string> kinds)
      : name_(std::move(name)), kinds_(std::move(kinds)) {}

  void Measure(const std::string& address, const Report& report,
               HonestWorker* worker) {
    const int times = report.quick() ? 300 : 1000;
    report.Progress(absl::StrCat("overload: alone, then beside ", name_));
    const HonestWorker::Figures alone = worker->Step(times);
    const HonestWorker::Figures beside =
        StepsBeside(address, kinds_, times, worker);
    p50_.Add(1e3 * beside.p50_seconds);
    p99_.Add(1e3 * beside.p99_seconds);
    alone_p50_.Add(1e3 * alone.p50_seconds);
    alone_p99_.Add(1e3 * alone.p99_seconds);
  }
  void AddTo(Report* report) const {
    const std::string kind = kinds_.size() == 1 ? "." + name_ : "";
    report->Add({absl::StrCat("honest_p99_ratio", kind), "ms", p99_,
                 Figure::Peer{"alone", alone_p99_}});
    report->Add({absl::StrCat("honest_p50_ratio", kind), "ms", p50_,
                 Figure::Peer{"alone", alone_p50_}});
  }

 private:
  const std::string name_;
  const std::vector<std::string> kinds_;
  Samples p50_, p99_, alone_p50_, alone_p99_;
};

// All kinds at once, or each by itself.
void MeasureHostile(bool by_kind, Report* report, Memory* memory) {
  const std::string address = DrawAddress();
  const auto server = MakeOverloadedServer(address);
  (void)ReportOf(server.get());  // It listens.
  HonestWorker worker(address);
  (void)worker.Step(100);
  std::vector<Beside> all;
  if (by_kind) {
    for (const std::string& kind : HostileKinds()) {
      all.emplace_back(kind, std::vector<std::string>{kind});
    }
  } else {
    all.emplace_back("all strangers", HostileKinds());
  }
  const int rounds = report->quick() || by_kind ? 1 : 3;
  for (Beside& beside : all) {
    for (int round = 0; round < rounds; ++round) {
      beside.Measure(address, *report, &worker);
    }
    beside.AddTo(report);
  }
  memory->Add(server.get());
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("overload", argc, argv);
  paramd::Memory memory;
  if (report.Wants("goodput")) paramd::MeasureGoodput(&report, &memory);
  if (report.Wants("hostile")) {
    paramd::MeasureHostile(/*by_kind=*/false, &report, &memory);
  }
  // What makes the most of it is looked for where one has time.
  if (report.Wants("kinds") && !report.quick()) {
    paramd::MeasureHostile(/*by_kind=*/true, &report, &memory);
  }
  memory.AddTo(&report);
}
