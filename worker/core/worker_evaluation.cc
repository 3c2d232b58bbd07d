#include "worker/core/worker_evaluation.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "proto/metric_values.h"
#include "worker/core/operation_kind.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void WorkerEvaluation::EndSession() {
  under_way_ = busy();
  newest_.Clear();
}

void WorkerEvaluation::Advance(const v1::HeartbeatReply& asked,
                               Session* session, WorkerTurn* turn) {
  if (under_way_) return;
  const bool final = asked.evaluate_final();
  if (!(final && !newest_.final()) &&
      asked.evaluate_epoch() <= newest_.epoch()) {
    return;
  }
  under_way_ = true;
  final_ = final;
  epoch_ = final ? epochs_ : asked.evaluate_epoch();
  session->StartPull(MakeOp(kEvaluationPull, ++pulls_), &weights_,
                     absl::nullopt, turn->now, turn->out);
}

void WorkerEvaluation::Pulled(bool given_up, WorkerTurn* turn) {
  if (given_up) {
    under_way_ = false;
    return;
  }
  auto evaluate = std::make_unique<v1::EvaluateWeights>();
  evaluate->set_epoch(epoch_);
  evaluate->set_final(final_);
  io_ = turn->StartIo(std::move(evaluate), weights_.buffers());
}

void WorkerEvaluation::Take(const IoResult& result, WorkerTurn* turn) {
  io_ = 0;
  under_way_ = false;
  const auto* evaluated =
      DynamicCastToGenerated<v1::EvaluateWeightsResult>(result.head.get());
  if (!result.status.ok() || evaluated == nullptr) {
    turn->out->Exit(result.status.ok()
                        ? absl::InternalError("no evaluation came")
                        : result.status);
    return;
  }
  newest_ = evaluated->evaluation();
  if (newest_.examples() == 0) return;  // The model evaluates nothing.
  std::vector<LogField> said = {{"epoch", newest_.epoch()}};
  for (const auto& [name, value] : MetricValues(newest_)) {
    said.emplace_back(name, value);
  }
  said.emplace_back("loss", newest_.loss());
  turn->out->Note(absl::StrCat("evaluation after epoch ", newest_.epoch(), ": ",
                               EvaluationText(newest_)),
                  std::move(said));
}

}  // namespace paramd
