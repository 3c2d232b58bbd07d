#include "process/resource_needs.h"

#include <cstdint>

#include "base/process_limits.h"
#include "base/resource_limits.h"
#include "base/status_macros.h"
#include "compute/device/matrix.h"
#include "config/strategy.h"

namespace paramd {
namespace {

// For signals: who hears them, what the first one does, and a line of the log.
constexpr size_t kForSignals = 3;
// Storage, summaries, reading for others, and the chief's lease.
constexpr size_t kOfACoordinator = 4;
// Computing, evaluating, fetching examples, and what they hand over.
constexpr size_t kOfAWorker = 4;
// gRPC's, of which it has as many again for each processor; and what listens.
constexpr size_t kOfGrpc = 6;
constexpr size_t kOfGrpcByProcessor = 2;
// For a step, and for an evaluation beside it.
constexpr size_t kOfAStage = 2;
constexpr size_t kOfMetrics = 3;  // A server, a watch, and its questions.
constexpr size_t kOfProgress = 1;
// Beside stacks and products: messages, files, and what is fetched ahead.
constexpr uint64_t kOtherBytes = uint64_t{128} << 20;

}  // namespace

ResourceNeeds NeedsAtStart() { return {.threads = kForSignals}; }

ResourceNeeds NeedsOf(const ProcessRole& role, bool alone,
                      const v1::JobConfig& job) {
  ResourceNeeds needs = NeedsAtStart();
  if (alone) needs.threads += kOfProgress;
  if (!role.evaluator.has_value()) {  // Alone it is called by operators.
    needs.threads += kOfGrpc + kOfGrpcByProcessor * ProcessorsOfThisProcess();
  }
  if (role.server.has_value() && role.places() > 1) {
    needs.threads += role.places();
  }
  if (role.worker.has_value()) {
    const size_t replicas = ReplicasOf(job);
    needs.threads += kOfAWorker + replicas - 1;
    needs.products += 1 + replicas;  // An evaluation beside a step.
  }
  if (role.stage.has_value()) {
    needs.threads += kOfAStage;
    needs.products += kOfAStage;
  }
  if (role.is_chief()) needs.threads += kOfACoordinator;
  if (role.evaluator.has_value()) {
    needs.threads += 1;
    needs.products += 1;
  }
  if (!job.metrics_address().empty()) needs.threads += kOfMetrics;
  return needs;
}

// Address space first: a thread that lacks it is no matter of ulimit -u.
absl::Status CheckResources(const ResourceNeeds& needs) {
  RETURN_IF_ERROR(
      CheckAddressSpace(kOtherBytes + needs.threads * StackBytes()));
  RETURN_IF_ERROR(CheckThreads(needs.threads));
  return ReserveForProducts(needs.products);
}

}  // namespace paramd
