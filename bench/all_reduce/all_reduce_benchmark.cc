// What summing 100 MB between two workers costs over loopback, in the buckets
// of training, beside Gloo's own all-reduce of the same bytes in the same
// processes.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/check.h"
#include "base/clock.h"
#include "bench/harness/child.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "gloo/allreduce.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/file_store.h"
#include "gloo/transport/tcp/device.h"
#include "worker/collective/gloo_collective.h"

namespace paramd {
namespace {

constexpr size_t kWorkers = 2;
constexpr size_t kElements = 25'000'000;           // 100 MB.
constexpr size_t kBucket = (size_t{4} << 20) / 4;  // all_reduce.bucket_bytes.
constexpr char kHost[] = "127.0.0.1";

// One worker: its connections, of paramd and of Gloo alone, and its gradient.
class Side {
 public:
  Side(size_t rank, const std::string& directory)
      : values_(kElements, static_cast<float>(rank + 1)) {
    ::gloo::rendezvous::FileStore store(directory);
    auto made = MakeGlooCollective(kHost, rank, kWorkers);
    CHECK(made.ok(), "loopback is there");
    ours_ = *std::move(made);
    const std::string& own = ours_->links()[1 - rank];
    store.set(absl::StrCat("ours-", rank), {own.begin(), own.end()});
    const std::vector<char> other = store.get(absl::StrCat("ours-", 1 - rank));
    std::vector<std::vector<std::string>> links(
        kWorkers, std::vector<std::string>(kWorkers));
    links[1 - rank][rank] = std::string(other.begin(), other.end());
    CHECK(ours_->Connect(links).ok(), "both sides are there");
    device_ = ::gloo::transport::tcp::CreateDevice(kHost);
    theirs_ = std::make_shared<::gloo::rendezvous::Context>(
        static_cast<int>(rank), static_cast<int>(kWorkers));
    theirs_->connectFullMesh(store, device_);
  }

  std::string Do(const std::string& how) {
    const bool ours = how.front() == 'o';
    const size_t step = how.back() == 's' ? kBucket : kElements;
    for (size_t at = 0; at < kElements; at += step) {
      const absl::Span<float> values =
          absl::MakeSpan(values_).subspan(at, step);
      if (ours) {
        CHECK(ours_->Sum(values).ok(), "the other side is there");
      } else {
        Reduce(values);
      }
    }
    return "done";
  }

 private:
  void Reduce(absl::Span<float> values) {
    ::gloo::AllreduceOptions options(theirs_);
    options.setOutput(values.data(), values.size());
    options.setAlgorithm(::gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(
            &::gloo::sum<float>));
    ::gloo::allreduce(options);
  }

  std::vector<float> values_;
  std::unique_ptr<LinkedCollective> ours_;
  std::shared_ptr<::gloo::transport::Device> device_;
  std::shared_ptr<::gloo::rendezvous::Context> theirs_;
};

class Pair {
 public:
  Pair() {
    char directory[] = "/tmp/all_reduce-XXXXXX";
    CHECK(mkdtemp(directory) != nullptr, "/tmp can be written");
    directory_ = directory;
    for (size_t r = 0; r < kWorkers; ++r) {
      sides_.push_back(std::make_unique<Child>(
          absl::StrCat("worker-", r), [r, this]() -> Child::Serve {
            auto side = std::make_shared<Side>(r, directory_);
            return [side](const std::string& how) { return side->Do(how); };
          }));
    }
  }
  ~Pair() { std::filesystem::remove_all(directory_); }

  // CPU-seconds of both sides per GB, and seconds.
  struct Cost {
    double cpu = 0;
    double seconds = 0;
  };
  Cost Measure(const std::string& how) {
    const double cpu = Cpu();
    const Time begin = MonotonicNow();
    std::vector<std::thread> calls;
    for (auto& side : sides_) {
      calls.emplace_back([&side, &how] { side->Call(how); });
    }
    for (std::thread& call : calls) call.join();
    constexpr double kGigabytes = kElements * sizeof(float) / 1e9;
    return {(Cpu() - cpu) / kGigabytes,
            absl::ToDoubleSeconds(MonotonicNow() - begin) / kGigabytes};
  }

 private:
  double Cpu() const {
    double all = 0;
    for (const auto& side : sides_) all += side->CpuSeconds();
    return all;
  }

  std::string directory_;
  std::vector<std::unique_ptr<Child>> sides_;
};

void Run(Report* report) {
  Pair pair;
  const std::vector<std::string> ways = {"ours", "gloo", "ours in buckets",
                                         "gloo in buckets"};
  std::vector<Samples> cpu(ways.size()), seconds(ways.size());
  const int rounds = report->quick() ? 8 : 40;
  for (int round = -2; round < rounds; ++round) {
    for (size_t w = 0; w < ways.size(); ++w) {
      const Pair::Cost cost = pair.Measure(ways[w]);
      if (round < 0) continue;
      cpu[w].Add(cost.cpu);
      seconds[w].Add(cost.seconds);
    }
  }
  const std::string ring = "Gloo's ring";
  report->Add({"cpu_s_per_gb", "s", cpu[0], Figure::Peer{ring, cpu[1]}});
  report->Add({"s_per_gb", "s", seconds[0], Figure::Peer{ring, seconds[1]}});
  report->Add(
      {"buckets_cpu_s_per_gb", "s", cpu[2], Figure::Peer{ring, cpu[3]}});
  report->Add(
      {"buckets_s_per_gb", "s", seconds[2], Figure::Peer{ring, seconds[3]}});
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("all_reduce", argc, argv);
  paramd::Run(&report);
}
