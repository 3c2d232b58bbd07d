#ifndef PARAMD_WORKER_COLLECTIVE_ROUND_EXCHANGE_H_
#define PARAMD_WORKER_COLLECTIVE_ROUND_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "worker/collective/bucketed_sum.h"
#include "worker/collective/gradient_exchange.h"
#include "worker/collective/linked_collective.h"
#include "worker/collective/round_link.h"

namespace paramd {

// The exchange of a worker among others in processes of their own, of which any
// may be lost and come back: it sums with those of the present round.
//
// A step that fails is made again in the next round, by whoever is in it: of N
// shares and M workers, worker number r of the round has the shares r, r + M, …
// They are summed in as many passes, each onto the sum of the passes before: so
// shares are added in their order, whoever computes them; or, where members'
// devices sum, in that of their ring.
//
// A worker may have the sums of a step and not know that all others have, since
// one was lost at that moment. If one of them went on, it gets the step's
// figures from there and goes on too.
class RoundExchange : public GradientExchange {
 public:
  struct Options {
    uint32_t shares = 1;  // Of a step: the job's workers.
    uint64_t bucket_bytes = uint64_t{4} << 20;
    uint32_t check_every_steps = 100;    // In a round; 0: never.
    std::function<uint32_t()> checksum;  // As MirrorExchange::Options.
  };
  // `link` outlives it.
  RoundExchange(Options options, RoundLink* link);

  void Expect() override { link_->Expect(); }
  std::vector<uint32_t> Begin(const v1::ComputeGradient& step,
                              GradientSpans gradients) override;
  absl::optional<std::vector<uint32_t>> NextPass() override;
  std::shared_ptr<DeviceRing> ring() override;
  void GradientsAreSums() override { devices_sum_ = true; }
  void Ready(size_t variable) override;
  // UNAVAILABLE: another worker was lost, and the step is to be computed again.
  // ABORTED: the others are elsewhere, and this process is to be started again.
  // What RoundLink::Fail was given.
  absl::Status End(std::vector<double>* figures) override;
  void Interrupt() override { link_->Interrupt(); }

 private:
  std::vector<uint32_t> BeginPass();
  bool IsLastPass() const {
    return (pass_ + 1) * collective_->size() >= options_.shares;
  }
  void AddBefore(size_t variable);
  absl::Status GatherFigures(const std::vector<double>& own);

  const Options options_;
  RoundLink* const link_;
  std::shared_ptr<LinkedCollective> collective_;  // Of the present step.
  std::vector<std::string> names_;                // Of its members.
  std::unique_ptr<BucketedSum> sum_;
  std::vector<absl::Span<float>> gradients_;
  absl::Status begun_;  // Why the step could not be begun.
  uint32_t pass_ = 0;
  bool devices_sum_ = false;  // In this pass, and nothing is summed here.
  std::vector<std::vector<float>> before_;  // Sums of the passes before.
  std::vector<std::atomic<bool>> added_;    // By variable: to the own share.
  std::vector<double> header_;
  std::vector<double> gathered_;  // Figures of the step, of all.
  uint64_t steps_ = 0;            // In this round.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_ROUND_EXCHANGE_H_
