#ifndef PARAMD_WORKER_COLLECTIVE_MIRROR_EXCHANGE_H_
#define PARAMD_WORKER_COLLECTIVE_MIRROR_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/collective/bucketed_sum.h"
#include "worker/collective/collective.h"
#include "worker/collective/gradient_exchange.h"

namespace paramd {

// The exchange of members of which none is ever lost alone: those of one
// process. With each step's figures goes which step it is, and every so many
// steps a checksum of what the member keeps, from before the step: nobody goes
// on beside a copy that has become another one.
class MirrorExchange : public GradientExchange {
 public:
  struct Options {
    uint32_t replicas = 1;  // Of this member, of the job's.
    uint64_t bucket_bytes = uint64_t{4} << 20;
    uint32_t check_every_steps = 100;  // 0: never.
    // Of this member's variables and slots, on the computing thread between
    // steps; nothing changes them then.
    std::function<uint32_t()> checksum;
    // Where members meet before their devices sum; nobody waits there for one
    // that is interrupted. May be null.
    std::shared_ptr<ReplicaMeeting> meeting;
    // Told why this member fails, before the others notice it. May be null.
    std::function<void(const absl::Status& why)> failed;
  };
  MirrorExchange(Options options, std::unique_ptr<Collective> collective);

  std::vector<uint32_t> Begin(const v1::ComputeGradient& step,
                              GradientSpans gradients) override;
  void GradientsAreSums() override { sums_are_made_ = true; }
  void Ready(size_t variable) override {
    if (!sums_are_made_) sum_->Ready(variable);
  }
  // INTERNAL, naming the replicas, if their copies differ, or the steps that
  // they are at.
  absl::Status End(std::vector<double>* figures) override;
  void Interrupt() override {
    collective_->Abort();
    if (options_.meeting != nullptr) options_.meeting->Abort();
  }
  void Fail(const absl::Status& why) override {
    if (options_.failed != nullptr) options_.failed(why);
    Interrupt();
  }

  // Reductions of a step; 0 before the first.
  size_t buckets() const { return sum_ == nullptr ? 0 : sum_->buckets(); }

 private:
  const Options options_;
  const std::unique_ptr<Collective> collective_;
  std::vector<std::string> names_;  // Of the members.
  std::unique_ptr<BucketedSum> sum_;
  bool sums_are_made_ = false;  // Of this step, elsewhere.
  uint64_t steps_ = 0;
  // What goes with the figures: epoch, begin, whether there is a checksum, and
  // the checksum.
  std::vector<double> header_;
};

// What the headers of all members, one after the other by rank, say of copies
// that have become different. `names`: of the members, "replica 1".
absl::Status CheckHeaders(absl::Span<const double> headers,
                          const std::vector<std::string>& names);
// As long is one.
constexpr size_t kHeaderNumbers = 4;
std::vector<double> MakeHeader(const v1::ComputeGradient& step,
                               const std::function<uint32_t()>& checksum);

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_MIRROR_EXCHANGE_H_
