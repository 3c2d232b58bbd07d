#include "tests/sim/stage_worker.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "compute/pipeline/stage_order.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/stage.pb.h"
#include "proto/refusal.h"
#include "worker/stages/sent_weights.h"
#include "worker/stages/stage_conversation.h"
#include "worker/stages/stage_exchange.h"
#include "worker/stages/stage_return.h"

namespace paramd {
namespace {

using Kind = PipelineOp::Kind;

constexpr absl::Duration kJoinDeadline = absl::Seconds(5);
constexpr absl::Duration kJoinAgain = absl::Milliseconds(500);

// Forward passes alone, with all examples at once.
PipelineSchedule ForEvaluation(PipelineSchedule schedule) {
  for (auto& list : schedule.devices) {
    const auto others = [](const PipelineOp& op) {
      return op.kind != Kind::kForward || op.micro_batch > 0;
    };
    list.erase(std::remove_if(list.begin(), list.end(), others), list.end());
  }
  schedule.micro_batches = 1;
  return schedule;
}

}  // namespace

// What is left of a worker's session.
class StageWorker::Session : public Core {
 public:
  Session(uint32_t worker, uint64_t incarnation)
      : worker_(worker), incarnation_(incarnation) {}

  bool has_joined() const { return session_ > 0; }
  uint64_t number() const { return session_; }
  bool is_ending() const { return end_.has_value(); }
  void End(const absl::Status& status) {
    if (!end_.has_value()) end_ = status;
  }

  void Start(Time now, Outbox*) override { next_ = now; }
  void Receive(Message message, Time now, Outbox* out) override {
    if (!message.is_reply) {
      return out->Refuse(message.call, absl::UnavailableError("none's"));
    }
    if (message.status.ok()) {
      session_ = static_cast<const v1::JoinReply&>(*message.head)
                     .generation()
                     .counter();
    } else if (RefusalOf(message.status).reason() == v1::Refusal::FENCED) {
      End(absl::AbortedError(message.status.message()));
    } else {
      next_ = now + kJoinAgain;
    }
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override {
    if (end_.has_value()) return out->Exit(*end_);
    if (has_joined() || now < next_) return;
    next_ = Time::Never();
    auto join = std::make_unique<v1::JoinRequest>();
    join->mutable_task()->set_type(v1::WORKER);
    join->mutable_task()->set_index(worker_);
    join->set_incarnation(incarnation_);
    out->Send(PeerId::Coordinator(), next_call_++, std::move(join), {},
              kJoinDeadline);
  }
  Time next_tick() const override {
    if (end_.has_value()) return Time();
    return has_joined() ? Time::Never() : next_;
  }

 private:
  const uint32_t worker_;
  const uint64_t incarnation_;
  uint64_t session_ = 0;
  absl::optional<absl::Status> end_;
  Time next_;
  CallId next_call_ = 1;
};

// A copy of the model, which computes one mini-batch after the other, each
// again until no stage fails.
class StageWorker::Lane {
 public:
  Lane(StageWorker* worker, uint32_t number);

  bool is_idle() const { return is_idle_; }
  Time due() const { return pause_.value_or(Time::Never()); }

  void Begin(const StagedBatch& batch, StagedWeights weights);
  // A pause is over.
  void Look();

 private:
  struct Op {
    bool begins = false;  // The mini-batch, on its stage.
    PipelineOp op;
  };
  // An operation that a stage process does.
  struct Asked {
    uint32_t device = 0;
    Op op;
    Numbers numbers;  // Its content.
    StageContent content;
    StageArrays expected;
    Numbers result;
    std::vector<float> sums;
    std::vector<absl::Span<std::byte>> to;
    std::unique_ptr<StageExchange> exchange;
    size_t calls = 0;
  };
  struct Device {
    std::vector<Op> list;
    size_t next = 0;
    std::shared_ptr<Asked> asked;
    // Null: it is the worker's own.
    std::unique_ptr<StageConversation> conversation;

    bool has_ended() const { return next == list.size(); }
  };
  using Place = std::pair<uint32_t, uint32_t>;  // Stage and micro-batch.

  bool trains() const { return state_.who.lane() == 0; }
  bool is_last(uint32_t s) const { return s + 1 == net_.stages; }
  void Attempt();
  void Advance();
  bool IsReady(const Op& op) const;
  // Of a forward or backward pass, what it reads.
  Numbers InputOf(const PipelineOp& op) const;
  Numbers GradientOf(const PipelineOp& op) const;
  void Compute(const Op& op);
  void Ask(uint32_t device, const Op& op);
  v1::StageOperation Describe(Asked* asked);
  v1::StageOperation DescribeBegin(Asked* asked);
  void DescribeBackward(Asked* asked, v1::StageOperation* operation);
  void Expect(Asked* asked);
  void Pump(const std::shared_ptr<Asked>& asked);
  void Answered(const std::shared_ptr<Asked>& asked, size_t call,
                const StageCalls::Answer& answer);
  void Ended(Asked* asked, const absl::Status& status);
  void Keep(const Asked& asked);
  void Check(const char* what, uint32_t stage, bool is_right);
  void Failed();
  void Greet();
  void Done();

  StageWorker& worker_;
  const StagedNet net_;
  PipelineSchedule schedule_;
  LaneState state_;
  std::vector<Device> devices_;
  std::vector<SentWeights> sent_;  // By stage.

  bool is_idle_ = true;
  StagedBatch batch_;
  StagedWeights weights_;
  StagedAnswers expected_;
  uint64_t times_ = 0;  // That it failed,
  Time since_;          // for the first time,
  Time lost_;           // and for the last time.
  // Of the attempt.
  absl::Status why_;
  absl::optional<Time> pause_;
  bool begins_ = false;  // Behind the pause.
  std::map<Place, Numbers> outputs_;
  std::map<Place, Numbers> gradients_;  // Of the stage's input.
  StagedWeights sums_;
  std::vector<uint32_t> summed_;  // Micro-batches, by stage.
};

StageWorker::Lane::Lane(StageWorker* worker, uint32_t number)
    : worker_(*worker), net_(worker->options_.net), sent_(net_.stages) {
  const Options& options = worker->options_;
  state_.who.set_worker(options.index);
  state_.who.set_incarnation(options.incarnation);
  state_.who.set_lane(number);
  state_.calls = &worker->calls_;
  state_.piece_bytes = options.piece_bytes;
  auto schedule =
      ScheduleByName(options.schedule, net_.stages, options.stages_per_device,
                     options.micro_batches);
  CHECK(schedule.ok(), "the schedule is sound");
  schedule_ =
      trains() ? *std::move(schedule) : ForEvaluation(*std::move(schedule));
  devices_.resize(schedule_.devices.size());
  const auto others = static_cast<uint32_t>(devices_.size()) - 1;
  for (uint32_t d = 0; d < others; ++d) {
    devices_[d].conversation = std::make_unique<StageConversation>(
        &state_, PeerId::Stage(options.index * others + d));
  }
}

void StageWorker::Lane::Begin(const StagedBatch& batch, StagedWeights weights) {
  is_idle_ = false;
  batch_ = batch;
  batch_.micro_batches = schedule_.micro_batches;
  weights_ = std::move(weights);
  expected_ = AnswersOf(net_, batch_, weights_);
  times_ = 0;
  Attempt();
}

void StageWorker::Lane::Attempt() {
  state_.Begin();
  why_ = absl::OkStatus();
  outputs_.clear();
  gradients_.clear();
  sums_.assign(net_.stages, std::vector<float>(net_.weights));
  summed_.assign(net_.stages, 0);
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    Device& device = devices_[d];
    device.next = 0;
    device.list.clear();
    for (uint32_t s = d; s < net_.stages; s += devices_.size()) {
      device.list.push_back({true, {Kind::kForward, s}});
    }
    for (const PipelineOp& op : schedule_.devices[d]) {
      device.list.push_back({false, op});
    }
  }
  Advance();
}

bool StageWorker::Lane::IsReady(const Op& op) const {
  const Place here(op.op.stage, op.op.micro_batch);
  if (op.begins) return true;
  switch (op.op.kind) {
    case Kind::kForward:
      return here.first == 0 ||
             outputs_.count({here.first - 1, here.second}) > 0;
    case Kind::kBackward:
    case Kind::kBackwardInput:
      return is_last(here.first)
                 ? outputs_.count(here) > 0
                 : gradients_.count({here.first + 1, here.second}) > 0;
    default:
      return true;
  }
}

void StageWorker::Lane::Advance() {
  if (worker_.session_->is_ending()) return;
  const auto asks = [](const Device& device) {
    return device.asked != nullptr;
  };
  if (!why_.ok()) {
    // Nothing else begins, and what is under way ends.
    if (std::none_of(devices_.begin(), devices_.end(), asks)) Failed();
    return;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      Device& device = devices_[d];
      if (device.asked != nullptr || device.has_ended()) continue;
      const Op op = device.list[device.next];
      if (!IsReady(op)) continue;
      if (device.conversation != nullptr) {
        Ask(d, op);
      } else {
        Compute(op);
        ++device.next;
        moved = true;
      }
    }
  }
  const bool is_done =
      std::all_of(devices_.begin(), devices_.end(),
                  [](const Device& device) { return device.has_ended(); });
  if (is_done) Done();
}

Numbers StageWorker::Lane::InputOf(const PipelineOp& op) const {
  return op.stage == 0 ? batch_.Input(op.micro_batch, net_.width)
                       : outputs_.at({op.stage - 1, op.micro_batch});
}

Numbers StageWorker::Lane::GradientOf(const PipelineOp& op) const {
  return is_last(op.stage)
             ? LossGradient(outputs_.at({op.stage, op.micro_batch}),
                            batch_.Label(op.micro_batch))
             : gradients_.at({op.stage + 1, op.micro_batch});
}

// On the worker's own device.
void StageWorker::Lane::Compute(const Op& op) {
  const uint32_t s = op.op.stage;
  const Place here(s, op.op.micro_batch);
  if (op.begins || op.op.kind == Kind::kUpdate) return;
  if (op.op.kind == Kind::kForward) {
    outputs_[here] = StageOutput(s, weights_[s], InputOf(op.op));
    return;
  }
  if (op.op.kind != Kind::kBackwardWeights) {
    gradients_[here] = StageInputGradient(weights_[s], GradientOf(op.op));
  }
  if (op.op.kind != Kind::kBackwardInput) {
    AddStageGradient(InputOf(op.op), GradientOf(op.op), &sums_[s]);
  }
}

// ---- what a stage process is asked for --------------------------------------

void StageWorker::Lane::Ask(uint32_t d, const Op& op) {
  auto asked = std::make_shared<Asked>();
  asked->device = d;
  asked->op = op;
  v1::StageOperation operation = Describe(asked.get());
  Expect(asked.get());
  asked->exchange =
      std::make_unique<StageExchange>(devices_[d].conversation->Begin(
          std::move(operation), asked->content,
          {&asked->expected, absl::MakeConstSpan(asked->to)}));
  devices_[d].asked = asked;
  Pump(asked);
}

v1::StageOperation StageWorker::Lane::Describe(Asked* asked) {
  const PipelineOp& op = asked->op.op;
  if (asked->op.begins) return DescribeBegin(asked);
  v1::StageOperation operation;
  operation.set_stage(op.stage);
  if (op.kind == Kind::kUpdate) {
    operation.mutable_update();
  } else if (op.kind == Kind::kForward) {
    operation.mutable_forward()->set_slot(op.micro_batch);
    asked->numbers = InputOf(op);
  } else {
    DescribeBackward(asked, &operation);
  }
  if (!asked->numbers.empty()) {
    asked->content.Add(DType::kInt64, {asked->numbers.size()},
                       AsBytes(absl::Span<const int64_t>(asked->numbers)));
  }
  return operation;
}

v1::StageOperation StageWorker::Lane::DescribeBegin(Asked* asked) {
  const uint32_t s = asked->op.op.stage;
  v1::StageOperation operation;
  operation.set_stage(s);
  const std::vector<absl::Span<const float>> used = {weights_[s]};
  if (trains()) sent_[s].Train();
  const bool has_them = sent_[s].Begin(used);
  operation.mutable_begin()->set_build("b");
  operation.mutable_begin()->set_slots(schedule_.micro_batches);
  operation.mutable_begin()->set_same_weights(has_them);
  if (!has_them) {
    asked->content.Add(DType::kFloat32, {used[0].size()}, AsBytes(used[0]));
  }
  return operation;
}

void StageWorker::Lane::DescribeBackward(Asked* asked,
                                         v1::StageOperation* operation) {
  using Part = v1::StageOperation::Backward;
  const PipelineOp& op = asked->op.op;
  Part* const backward = operation->mutable_backward();
  backward->set_slot(op.micro_batch);
  backward->set_part(op.kind == Kind::kBackward        ? Part::WHOLE
                     : op.kind == Kind::kBackwardInput ? Part::INPUT
                                                       : Part::VARIABLES);
  if (op.kind != Kind::kBackwardInput) {
    backward->set_adds(summed_[op.stage]++ > 0);
  }
  if (op.kind != Kind::kBackwardWeights) asked->numbers = GradientOf(op);
}

// The result, and where it goes.
void StageWorker::Lane::Expect(Asked* asked) {
  const PipelineOp& op = asked->op.op;
  if (asked->op.begins || op.kind == Kind::kBackwardWeights) return;
  if (op.kind == Kind::kUpdate) {
    asked->sums.resize(net_.weights);
    AddArray(DType::kFloat32, {net_.weights}, &asked->expected);
    asked->to.push_back(AsWritableBytes(absl::MakeSpan(asked->sums)));
  } else if (op.kind == Kind::kForward || op.stage > 0) {
    asked->result.resize(net_.width);
    AddArray(DType::kInt64, {net_.width}, &asked->expected);
    asked->to.push_back(AsWritableBytes(absl::MakeSpan(asked->result)));
  }
}

void StageWorker::Lane::Pump(const std::shared_ptr<Asked>& asked) {
  for (auto call = asked->exchange->Next(); call.has_value();
       call = asked->exchange->Next()) {
    worker_.calls_.Call(
        *std::move(call),
        [this, asked, i = asked->calls++](const StageCalls::Answer& answer) {
          Answered(asked, i, answer);
        });
  }
}

void StageWorker::Lane::Answered(const std::shared_ptr<Asked>& asked,
                                 size_t call,
                                 const StageCalls::Answer& answer) {
  // Of an operation that has failed, or behind the end.
  if (devices_[asked->device].asked != asked || worker_.session_->is_ending()) {
    return;
  }
  const absl::Status status = asked->exchange->Take(call, answer);
  if (!status.ok() || asked->exchange->is_done()) {
    return Ended(asked.get(), status);
  }
  Pump(asked);
}

void StageWorker::Lane::Ended(Asked* asked, const absl::Status& status) {
  worker_.progressed_at_ = worker_.now_;
  Device& device = devices_[asked->device];
  const std::shared_ptr<Asked> keep = std::move(device.asked);
  device.asked = nullptr;
  device.conversation->Ended(status);
  const uint32_t s = asked->op.op.stage;
  if (asked->op.begins) {
    const std::vector<absl::Span<const float>> used = {weights_[s]};
    sent_[s].Begun(status.ok(), used);
  }
  if (status.ok()) {
    ++device.next;
    Keep(*asked);
  } else if (why_.ok()) {
    why_ = status;
  }
  Advance();
}

void StageWorker::Lane::Keep(const Asked& asked) {
  const PipelineOp& op = asked.op.op;
  const Place here(op.stage, op.micro_batch);
  if (asked.op.begins) return;
  if (op.kind == Kind::kForward) {
    Check("output", op.stage,
          asked.result == expected_.outputs[op.stage][op.micro_batch]);
    outputs_[here] = asked.result;
  } else if (op.kind == Kind::kUpdate) {
    sums_[op.stage] = asked.sums;
  } else if (op.kind != Kind::kBackwardWeights) {
    Check("input gradient", op.stage,
          op.stage == 0 ||
              asked.result ==
                  expected_.input_gradients[op.stage][op.micro_batch]);
    gradients_[here] = asked.result;
  }
}

void StageWorker::Lane::Check(const char* what, uint32_t stage, bool is_right) {
  if (is_right) return;
  worker_.job_.Wrong(absl::StrCat("worker ", worker_.options_.index,
                                  " (process ", worker_.options_.incarnation,
                                  "), lane ", state_.who.lane(), ", batch ",
                                  batch_.number, ": the ", what, " of stage ",
                                  stage, " is not what one process computes"));
}

// ---- of a whole mini-batch --------------------------------------------------

void StageWorker::Lane::Failed() {
  worker_.job_.BegunAgain();
  lost_ = worker_.now_;
  if (++times_ == 1) since_ = lost_;
  const absl::Status end = CheckMayComeBack(why_);
  if (!end.ok()) return worker_.End(end);
  worker_.calls_.SetWaiting(state_.who.lane(), std::string(why_.message()));
  Greet();
}

void StageWorker::Lane::Greet() {
  auto greet = std::make_unique<v1::GreetStageRequest>();
  *greet->mutable_header() = state_.Header();
  worker_.calls_.Call(
      {PeerId::Stage(state_.failed), std::move(greet), {}, kStageDeadline},
      [this](const StageCalls::Answer& answer) {
        if (worker_.session_->is_ending()) return;
        const Time now = worker_.now_;
        const ReturnVerdict verdict =
            JudgeReturn({why_, times_, now - lost_, now - since_},
                        answer.status, worker_.options_.patience);
        if (!verdict.end.ok()) return worker_.End(verdict.end);
        pause_ = worker_.now_ + verdict.pause;
        begins_ = verdict.begins;
      });
}

void StageWorker::Lane::Look() {
  pause_.reset();
  if (begins_) return Attempt();
  Greet();
}

void StageWorker::Lane::Done() {
  is_idle_ = true;
  worker_.calls_.SetWaiting(state_.who.lane(), "");
  const uint32_t last = net_.stages - 1;
  Check("last output", last,
        outputs_.at({last, 0}) == expected_.outputs[last][0]);
  if (!trains()) return worker_.job_.Evaluated();
  for (uint32_t s = 0; s < net_.stages; ++s) {
    Check("sum", s, sums_[s] == expected_.sums[s]);
  }
  worker_.job_.Trained(worker_, sums_);
}

// ---- the process ------------------------------------------------------------

StageWorker::StageWorker(const Options& options, StageJob* job)
    : options_(options),
      job_(*job),
      session_(std::make_unique<Session>(options.index, options.incarnation)),
      calls_([&options] {
        const uint32_t others =
            options.net.stages / options.stages_per_device - 1;
        return StageCalls::Options{.index = options.index,
                                   .incarnation = options.incarnation,
                                   .first = options.index * others,
                                   .count = others};
      }()) {
  // Who calls ticks anyway.
  around_ = calls_.Around(session_.get(), [] {});
  trains_ = std::make_unique<Lane>(this, 0);
  if (options.evaluates) evaluates_ = std::make_unique<Lane>(this, 1);
}

StageWorker::~StageWorker() = default;

uint64_t StageWorker::session() const { return session_->number(); }

void StageWorker::End(const absl::Status& status) { session_->End(status); }

void StageWorker::GoOn(Time now) {
  now_ = now;
  if (!session_->has_joined() || session_->is_ending()) return;
  if (trains_->is_idle()) {
    const auto batch = job_.NextBatch(*this);
    if (!batch.has_value()) return End(absl::OkStatus());
    trains_->Begin(*batch, job_.WeightsOf(*this));
  }
  if (evaluates_ != nullptr && evaluates_->is_idle()) {
    evaluates_->Begin(job_.TestBatch(), job_.TestWeights(*this));
  }
  for (Lane* const lane : {trains_.get(), evaluates_.get()}) {
    if (lane != nullptr && lane->due() <= now) lane->Look();
  }
}

void StageWorker::Start(Time now, Outbox* out) {
  now_ = now;
  progressed_at_ = now;
  around_->Start(now, out);
}

void StageWorker::Receive(Message message, Time now, Outbox* out) {
  now_ = now;
  around_->Receive(std::move(message), now, out);
  GoOn(now);
}

void StageWorker::Completed(IoResult result, Time now, Outbox* out) {
  around_->Completed(std::move(result), now, out);
}

void StageWorker::Tick(Time now, Outbox* out) {
  GoOn(now);
  around_->Tick(now, out);
}

Time StageWorker::next_tick() const {
  Time next = around_->next_tick();
  if (session_->is_ending()) return next;
  for (const Lane* const lane : {trains_.get(), evaluates_.get()}) {
    if (lane != nullptr) next = std::min(next, lane->due());
  }
  return next;
}

void StageWorker::Drain(Time now, Outbox* out) { around_->Drain(now, out); }

}  // namespace paramd
