#include "worker/core/worker_evaluation.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "proto/metric_values.h"
#include "proto/paramd/v1/compute.pb.h"
#include "proto/test_part.h"
#include "worker/core/operation_kind.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

namespace {

// Of a heartbeat, beside which the rest of it is small.
constexpr size_t kMostTestedBytes = size_t{768} << 10;

}  // namespace

void WorkerEvaluation::BeginSession(Session* session) {
  session_ = session;
  weights_ = Weights::WithoutSparse(session->placement());
}

void WorkerEvaluation::EndSession() {
  session_ = nullptr;
  under_way_ = busy();
  of_ended_session_ = busy();
  newest_.Clear();
  counted_part_.Clear();
  counted_.clear();
}

void WorkerEvaluation::Advance(const v1::HeartbeatReply& asked,
                               WorkerTurn* turn) {
  if (under_way_) return;
  const bool final = asked.evaluate_final();
  const bool of_part = asked.has_test_part();
  if (of_part ? IsCounted(asked.test_part())
              : !(final && !newest_.final()) &&
                    asked.evaluate_epoch() <= newest_.epoch()) {
    return;
  }
  under_way_ = true;
  part_ = asked.test_part();
  if (!session_->placement().sparse().empty() &&
      (row_numbers_.empty() || !SamePart(part_, part_of_rows_))) {
    auto collect = std::make_unique<v1::CollectEvaluationRows>();
    if (of_part) *collect->mutable_part() = part_;
    io_ = turn->StartIo(std::move(collect), {});
    return;
  }
  final_ = final;
  const bool is_told = !final || asked.evaluate_epoch() > 0;
  epoch_ = is_told ? asked.evaluate_epoch() : epochs_;
  session_->StartPull(MakeOp(kEvaluationPull, ++pulls_), &weights_,
                      absl::nullopt, turn->now, turn->out);
}

void WorkerEvaluation::Pulled(bool given_up, WorkerTurn* turn) {
  if (given_up) {
    under_way_ = false;
    return;
  }
  if (row_numbers_.empty()) return Compute(weights_.buffers(), turn);
  auto rows = SparseRows::Create(session_->placement(), row_numbers_);
  if (!rows.ok()) return turn->out->Exit(rows.status());
  rows_ = std::make_unique<SparseRows>(*std::move(rows));
  StartLookup(turn);
}

void WorkerEvaluation::StartLookup(WorkerTurn* turn) {
  session_->StartLookup(MakeOp(kEvaluationLookup, pulls_), rows_.get(),
                        absl::nullopt, /*after_step=*/0, turn->now, turn->out);
}

void WorkerEvaluation::LookedUp(bool given_up, WorkerTurn* turn) {
  if (given_up) return StartLookup(turn);
  Compute(rows_->HandOut(weights_.buffers()), turn);
  rows_.reset();
}

void WorkerEvaluation::Compute(BufferChain weights, WorkerTurn* turn) {
  auto evaluate = std::make_unique<v1::EvaluateWeights>();
  evaluate->set_epoch(epoch_);
  evaluate->set_final(final_);
  if (part_.end() > 0) *evaluate->mutable_part() = part_;
  io_ = turn->StartIo(std::move(evaluate), std::move(weights));
}

void WorkerEvaluation::Take(const IoResult& result, WorkerTurn* turn) {
  io_ = 0;
  under_way_ = false;
  const bool is_late = std::exchange(of_ended_session_, false);
  if (result.status.ok() &&
      DynamicCastToGenerated<v1::CollectEvaluationRowsResult>(
          result.head.get()) != nullptr) {
    row_numbers_ = {result.payload.begin(), result.payload.end()};
    part_of_rows_ = part_;
    return;
  }
  const auto* evaluated =
      DynamicCastToGenerated<v1::EvaluateWeightsResult>(result.head.get());
  if (!result.status.ok() || evaluated == nullptr) {
    turn->out->Exit(result.status.ok()
                        ? absl::InternalError("no evaluation came")
                        : result.status);
    return;
  }
  if (is_late) return;  // The job may have gone back since.
  TakeResult(*evaluated, turn);
}

void WorkerEvaluation::TakeResult(const v1::EvaluateWeightsResult& result,
                                  WorkerTurn* turn) {
  if (part_.end() > 0) {
    counted_part_ = part_;
    counted_ = {result.batches().begin(), result.batches().end()};
    turn->out->Note(absl::StrCat("evaluated batches [", part_.begin(), ", ",
                                 part_.end(), ") of the test set"));
    return;
  }
  newest_ = result.evaluation();
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

bool WorkerEvaluation::IsCounted(const v1::TestPart& part) const {
  return part.end() > 0 && SameEvaluation(part, counted_part_) &&
         part.end() == counted_part_.end() &&
         part.begin() >= counted_part_.begin();
}

void WorkerEvaluation::FillPart(v1::HeartbeatRequest* request) const {
  const v1::TestPart& part = request->test_part();
  if (!IsCounted(part)) return;
  v1::TestedBatches* const tested = request->mutable_tested();
  *tested->mutable_part() = part;
  size_t bytes = 0;
  for (size_t i = part.begin() - counted_part_.begin(); i < counted_.size();
       ++i) {
    bytes += counted_[i].ByteSizeLong();
    if (bytes > kMostTestedBytes && tested->batches_size() > 0) return;
    *tested->add_batches() = counted_[i];
  }
}

}  // namespace paramd
