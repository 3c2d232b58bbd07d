// Pushes and pulls of dense numbers: paramd, raw gRPC and plain TCP, in turn.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "bench/lanes/lane.h"

namespace paramd {
namespace {

constexpr uint64_t kKib = 1024;
constexpr uint64_t kMib = kKib * kKib;

std::string SizeName(uint64_t bytes) {
  return bytes < kMib ? absl::StrCat(bytes / kKib, "kib")
                      : absl::StrCat(bytes / kMib, "mib");
}

// What one lane gave, round by round.
struct Measured {
  std::string name;
  Samples gb_per_s, cpu_s_per_gb, page_faults_per_gb, p50_us, p99_us;

  void Add(const Lane::Moved& moved, double gigabytes) {
    gb_per_s.Add(gigabytes / moved.seconds);
    cpu_s_per_gb.Add(moved.cpu_seconds / gigabytes);
    page_faults_per_gb.Add(moved.page_faults / gigabytes);
    p50_us.Add(1e6 * moved.p50_seconds);
    p99_us.Add(1e6 * moved.p99_seconds);
  }
};

// All lanes in turn, then again: A B C A B C. The first round is not counted.
std::vector<Measured> Interleave(
    const std::vector<std::unique_ptr<Lane>>& lanes, Transfer transfer,
    uint64_t bytes, uint64_t bytes_a_round, int rounds) {
  const int times =
      static_cast<int>(std::max<uint64_t>(2, bytes_a_round / bytes));
  std::vector<Measured> measured(lanes.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      const Lane::Moved moved = lanes[i]->Move(transfer, times);
      measured[i].name = lanes[i]->name();
      if (round >= 0) measured[i].Add(moved, 1e-9 * bytes * times);
    }
  }
  return measured;
}

class DenseBenchmark {
 public:
  DenseBenchmark(int argc, char** argv) : report_("dense", argc, argv) {}

  void Run() {
    const std::vector<uint64_t> sizes =
        report_.quick()
            ? std::vector<uint64_t>{kMib, 64 * kMib}
            : std::vector<uint64_t>{4 * kKib,  64 * kKib, kMib,
                                    16 * kMib, 64 * kMib, 256 * kMib};
    for (const uint64_t bytes : sizes) {
      if (report_.Wants(SizeName(bytes))) OfSize(bytes);
    }
    if (report_.Wants("500x4kib")) SmallVariables();
    Over(PayloadPath::kSharedMemory, "shared_memory");
    Over(PayloadPath::kTls, "tls");
    if (report_.Wants("tls")) TlsOverRaw();
    if (report_.Wants("bf16")) Bf16();
    if (over_raw_.empty()) return;
    Add("cpu_s_per_gb_over_raw_grpc", "", over_raw_);
    Add("apply_over_push", "", apply_over_push_);
    Add("page_faults_per_gb", "1/GB", page_faults_);
  }

 private:
  // Fewer say more about the scheduler than about the lanes.
  int rounds() const { return 5; }
  // Small ones take longer a byte.
  uint64_t BytesARound(uint64_t bytes) const {
    const uint64_t most = report_.quick() ? 256 * kMib : kKib * kMib;
    return std::min<uint64_t>(most, bytes * 2000);
  }

  void OfSize(uint64_t bytes) {
    const std::string size = SizeName(bytes);
    report_.Progress(absl::StrCat("dense: ", size));
    std::vector<std::unique_ptr<Lane>> lanes;
    lanes.push_back(MakeParamdLane({bytes}, /*apply=*/false));
    lanes.push_back(MakeRawGrpcLane(bytes));
    lanes.push_back(MakeTcpLane(bytes));
    lanes.push_back(MakeParamdLane({bytes}, /*apply=*/true));
    const auto pushed =
        Interleave(lanes, Transfer::kPush, bytes, BytesARound(bytes), rounds());
    AddTransfer(absl::StrCat("push_", size), pushed[0], pushed[1], pushed[2]);
    AddPair(absl::StrCat("push_sgd_", size, ".cpu_s_per_gb"), "CPU-s/GB",
            pushed[3].cpu_s_per_gb, pushed[0].name, pushed[0].cpu_s_per_gb);
    AddPair(absl::StrCat("push_sgd_", size, ".gb_per_s"), "GB/s",
            pushed[3].gb_per_s, pushed[0].name, pushed[0].gb_per_s);
    lanes.pop_back();
    const auto pulled =
        Interleave(lanes, Transfer::kPull, bytes, BytesARound(bytes), rounds());
    AddTransfer(absl::StrCat("pull_", size), pulled[0], pulled[1], pulled[2]);
    if (bytes < kMib || bytes > 64 * kMib) return;
    for (const auto* of : {&pushed, &pulled}) {
      over_raw_.Add((*of)[0].cpu_s_per_gb.Median() /
                    (*of)[1].cpu_s_per_gb.Median());
      page_faults_.Add((*of)[0].page_faults_per_gb.Median());
    }
    apply_over_push_.Add(pushed[3].cpu_s_per_gb.Median() /
                         pushed[0].cpu_s_per_gb.Median());
  }

  // 500 variables of a page each, beside one of as many bytes.
  void SmallVariables() {
    report_.Progress("dense: 500 variables of 4 KiB");
    const uint64_t bytes = 500 * 4 * kKib;
    std::vector<std::unique_ptr<Lane>> lanes;
    lanes.push_back(MakeParamdLane(std::vector<uint64_t>(500, 4 * kKib),
                                   /*apply=*/true));
    lanes.push_back(MakeParamdLane({bytes}, /*apply=*/true));
    double small = 0;
    double one = 0;
    for (const Transfer transfer : {Transfer::kPush, Transfer::kPull}) {
      const auto moved =
          Interleave(lanes, transfer, bytes, BytesARound(bytes) / 4, rounds());
      AddPair(absl::StrCat(transfer == Transfer::kPush ? "push" : "pull",
                           "_500x4kib.cpu_s_per_gb"),
              "CPU-s/GB", moved[0].cpu_s_per_gb, "one variable",
              moved[1].cpu_s_per_gb);
      small += moved[0].cpu_s_per_gb.Median();
      one += moved[1].cpu_s_per_gb.Median();
    }
    Samples ratio;
    ratio.Add(small / one);
    Add("small_variables_cpu_over_one", "", ratio);
  }

  // The same bytes on another way than plain TCP.
  void Over(PayloadPath path, const std::string& name) {
    if (!report_.Wants(name)) return;
    Samples over_tcp;
    for (const uint64_t bytes : {kMib, 64 * kMib}) {
      const std::string size = SizeName(bytes);
      report_.Progress(absl::StrCat("dense: ", name, ", ", size));
      std::vector<std::unique_ptr<Lane>> lanes;
      for (const PayloadPath way : {path, PayloadPath::kTcp}) {
        lanes.push_back(
            MakeParamdLane({bytes}, /*apply=*/false, {.path = way}));
      }
      for (const Transfer transfer : {Transfer::kPush, Transfer::kPull}) {
        const auto moved =
            Interleave(lanes, transfer, bytes, BytesARound(bytes), rounds());
        const std::string metric =
            absl::StrCat(transfer == Transfer::kPush ? "push_" : "pull_", size,
                         "_", name, ".");
        AddPair(metric + "cpu_s_per_gb", "CPU-s/GB", moved[0].cpu_s_per_gb,
                "over TCP", moved[1].cpu_s_per_gb);
        AddPair(metric + "gb_per_s", "GB/s", moved[0].gb_per_s, "over TCP",
                moved[1].gb_per_s);
        over_tcp.Add(moved[0].cpu_s_per_gb.Median() /
                     moved[1].cpu_s_per_gb.Median());
      }
    }
    Add(name + "_cpu_over_tcp", "", over_tcp);
  }

  // What gRPC's own TLS makes of the same bytes is the limit.
  void TlsOverRaw() {
    const uint64_t bytes = 64 * kMib;
    report_.Progress("dense: tls, raw gRPC");
    std::vector<std::unique_ptr<Lane>> lanes;
    lanes.push_back(
        MakeParamdLane({bytes}, /*apply=*/false, {.path = PayloadPath::kTls}));
    lanes.push_back(MakeRawGrpcLane(bytes, /*tls=*/true));
    Samples over_raw;
    for (const Transfer transfer : {Transfer::kPush, Transfer::kPull}) {
      const auto moved =
          Interleave(lanes, transfer, bytes, BytesARound(bytes), rounds());
      over_raw.Add(moved[0].cpu_s_per_gb.Median() /
                   moved[1].cpu_s_per_gb.Median());
    }
    Add("tls_cpu_over_raw_grpc_tls", "", over_raw);
  }

  // As many numbers in half the bytes: what each costs, pushed and pulled.
  void Bf16() {
    report_.Progress("dense: 64 MiB of fp32, as bf16");
    const uint64_t bytes = 64 * kMib;
    std::vector<std::unique_ptr<Lane>> lanes;
    for (const NumberFormat format :
         {NumberFormat::kBf16, NumberFormat::kFp32}) {
      lanes.push_back(
          MakeParamdLane({bytes}, /*apply=*/true, {.format = format}));
    }
    const auto move = [&](Transfer transfer) {
      return Interleave(lanes, transfer, bytes, BytesARound(bytes), rounds());
    };
    const auto pushed = move(Transfer::kPush);
    const auto pulled = move(Transfer::kPull);
    AddPair("push_bf16_64mib.cpu_s_per_gb_of_fp32", "CPU-s/GB",
            pushed[0].cpu_s_per_gb, "fp32", pushed[1].cpu_s_per_gb);
    AddPair("pull_bf16_64mib.cpu_s_per_gb_of_fp32", "CPU-s/GB",
            pulled[0].cpu_s_per_gb, "fp32", pulled[1].cpu_s_per_gb);
    Samples ratio;
    ratio.Add(
        (pushed[0].cpu_s_per_gb.Median() + pulled[0].cpu_s_per_gb.Median()) /
        (pushed[1].cpu_s_per_gb.Median() + pulled[1].cpu_s_per_gb.Median()));
    Add("bf16_cpu_per_parameter_over_fp32", "", ratio);
  }

  void AddTransfer(const std::string& name, const Measured& paramd,
                   const Measured& raw, const Measured& tcp) {
    AddPair(name + ".cpu_s_per_gb", "CPU-s/GB", paramd.cpu_s_per_gb, raw.name,
            raw.cpu_s_per_gb);
    AddPair(name + ".cpu_s_per_gb_beside_tcp", "CPU-s/GB", paramd.cpu_s_per_gb,
            tcp.name, tcp.cpu_s_per_gb);
    AddPair(name + ".gb_per_s", "GB/s", paramd.gb_per_s, raw.name,
            raw.gb_per_s);
    AddPair(name + ".p50_us", "us", paramd.p50_us, raw.name, raw.p50_us);
    AddPair(name + ".p99_us", "us", paramd.p99_us, raw.name, raw.p99_us);
    AddPair(name + ".page_faults_per_gb", "1/GB", paramd.page_faults_per_gb,
            raw.name, raw.page_faults_per_gb);
  }
  void AddPair(std::string metric, std::string unit, Samples values,
               std::string peer, Samples peer_values) {
    report_.Add({std::move(metric), std::move(unit), std::move(values),
                 Figure::Peer{std::move(peer), std::move(peer_values)}});
  }
  void Add(std::string metric, std::string unit, Samples values) {
    report_.Add({std::move(metric), std::move(unit), std::move(values), {}});
  }

  Report report_;
  Samples over_raw_, apply_over_push_, page_faults_;
};

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) { paramd::DenseBenchmark(argc, argv).Run(); }
