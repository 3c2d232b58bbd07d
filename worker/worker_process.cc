#include "worker/worker_process.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "compute/device/device_link.h"
#include "config/batch_rule.h"
#include "config/strategy.h"
#include "input/growing_source.h"
#include "input/open_pipeline.h"
#include "net/heard_setting.h"
#include "proto/paramd/v1/compute.pb.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "worker/best_metric.h"
#include "worker/load_teachers.h"
#include "worker/metric_messages.h"
#include "worker/pinned_memory.h"

namespace paramd {
namespace {

constexpr absl::Duration kInputPatience = absl::Minutes(5);
// The files of an epoch are gone through before its first example is read.
constexpr absl::Duration kFilesPatience = absl::Hours(6);
// So that clocks cost nothing beside a stage that does next to nothing.
constexpr uint32_t kMeasuredExample = 16;

std::vector<uint64_t> GradientBytes(const TrainedModel& model) {
  std::vector<uint64_t> bytes;
  for (const v1::Variable& variable : model.variables()) {
    uint64_t elements = variable.sparse() ? 0 : 1;
    for (const uint64_t dimension : variable.shape()) elements *= dimension;
    bytes.push_back(elements * sizeof(float));
  }
  return bytes;
}

// Null: there is none.
UnifiedMemory* UnifiedMemoryOf(TrainedModel* model) {
  DeviceLink* const link = model->link();
  return link == nullptr ? nullptr : link->unified_memory();
}
BufferArena* PinnedMemoryOf(TrainedModel* model) {
  DeviceLink* const link = model->link();
  return link == nullptr ? nullptr : link->pinned_memory();
}

// Writes a worker's pushes and pulls down.
class TraceObserver : public StepObserver {
 public:
  explicit TraceObserver(ChromeTrace* trace) : trace_(trace) {}

  void Pulled(bool with_push, Time begin, Time end) override {
    trace_->Add(ChromeTrace::Lane::kPull,
                with_push ? "pull with the push" : "pull", begin, end);
  }
  void Pushed(Time begin, Time end) override {
    trace_->Add(ChromeTrace::Lane::kPush, "push", begin, end);
  }

 private:
  ChromeTrace* const trace_;
};

Portion ToRange(uint32_t epoch, uint64_t begin, uint64_t end) {
  return {.epoch = epoch, .begin = begin, .end = end};
}

}  // namespace

absl::StatusOr<WorkerProcess::Checked> WorkerProcess::Check(
    const v1::JobConfig& job, const ModelFactory& models,
    uint32_t stages_elsewhere) {
  Checked checked;
  ASSIGN_OR_RETURN(checked.training, OpenTrainingData(job));
  ASSIGN_OR_RETURN(checked.test, OpenTestData(job.input(), *checked.training));
  RETURN_IF_ERROR(CheckGpus(job, stages_elsewhere));
  RETURN_IF_ERROR(PrepareToLearn(job, checked.training.get()));
  ASSIGN_OR_RETURN(checked.model,
                   models(WithoutGpu(job), checked.training->spec()));
  RETURN_IF_ERROR(checked.model->CheckTestData(checked.test->spec()));
  RETURN_IF_ERROR(
      BestMetric(job.checkpoint(), checked.model->metrics()).status());
  return checked;
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Create(
    const Worker::Options& options, const ModelFactory& models,
    ChromeTrace* trace, const Membership& member) {
  Parts parts;
  ASSIGN_OR_RETURN(parts.training, OpenTrainingData(options.job));
  ASSIGN_OR_RETURN(parts.test,
                   OpenTestData(options.job.input(), *parts.training));
  RETURN_IF_ERROR(PrepareToLearn(options.job, parts.training.get()));
  ASSIGN_OR_RETURN(parts.model, models(options.job, parts.training->spec()));
  RETURN_IF_ERROR(parts.model->CheckTestData(parts.test->spec()));
  // Timing on a GPU costs something, and a recorded step goes on with the
  // timing events that it was recorded with, or without.
  if (trace != nullptr && trace->keeps_all()) parts.model->SetTrace(trace);
  ASSIGN_OR_RETURN(parts.best_metric, BestMetric(options.job.checkpoint(),
                                                 parts.model->metrics()));
  Worker::Options worker = options;
  worker.examples = parts.training->size();
  worker.data = parts.training->Describe();
  const std::string directory = TrainingDirectory(options.job.input());
  if (!directory.empty()) {
    ASSIGN_OR_RETURN(*worker.data.mutable_directory(), AbsolutePath(directory));
  }
  worker.data.set_host(options.host);
  worker.test_set = TestSetOf(*parts.test, *parts.model, member, options.job);
  worker.variables = parts.model->variables();
  // What somebody wrote there after one batch would be in the next of the
  // push.
  const v1::JobConfig& job = options.job;
  BroughtModel* const brought = parts.model->brought();
  if (brought != nullptr && job.accumulate() <= 1 && job.push_every() <= 1 &&
      ReplicasOf(job) == 1) {
    worker.weight_memory.lent = brought->lent_weights();
  }
  PinMemory(GradientBytes(*parts.model), parts.model->link());
  worker.weight_memory.device = UnifiedMemoryOf(parts.model.get());
  if (BufferArena* const pinned = PinnedMemoryOf(parts.model.get())) {
    worker.weight_memory.pinned = [pinned](size_t size) {
      return pinned->Allocate(size);
    };
  }
  if (brought != nullptr) {
    worker.on_end = [brought](const v1::HeartbeatReply& end) {
      brought->JobEnded({end.training().begin(), end.training().end()});
    };
  }
  if (trace != nullptr) {
    parts.observer = std::make_unique<TraceObserver>(trace);
    worker.observer = parts.observer.get();
  }
  return std::unique_ptr<WorkerProcess>(
      new WorkerProcess(worker, std::move(parts), trace, member));
}

WorkerProcess::WorkerProcess(const Worker::Options& options, Parts parts,
                             ChromeTrace* trace, const Membership& member)
    : options_(options),
      trace_(trace),
      member_(member),
      observer_(std::move(parts.observer)),
      best_metric_(std::move(parts.best_metric)),
      training_(std::move(parts.training)),
      model_(std::move(parts.model)),
      clip_(options.job.optimizer(), model_->variables()),
      pool_(GradientBytes(*model_), UnifiedMemoryOf(model_.get()),
            PinnedMemoryOf(model_.get())),
      steps_(options.job,
             member.replicas > 0 ? member.replicas : ReplicasOf(options.job),
             model_.get(), member.group),
      core_(options),
      traced_(&core_, trace),
      prefetcher_(*training_, PrefetcherOptions()),
      evaluator_(std::move(parts.test), model_->Clone(), member_, trace),
      computing_("compute") {
  training_->Measure(trace_, kMeasuredExample);
  shares_.resize(ReplicasOf(options.job));
  std::iota(shares_.begin(), shares_.end(), 0);
  const uint32_t concurrent = ConcurrentSteps(options.job.pipeline());
  if (concurrent > 1) {
    step_threads_ =
        std::make_unique<StepThreads>(options.job, *model_, concurrent);
  }
}

// What is under way is of no use any more, and reads no more of what is yet to
// appear.
WorkerProcess::~WorkerProcess() {
  abandoned_ = true;
  GrowingSource* const growing = training_->growing();
  if (growing != nullptr) growing->StopWaiting();
}

Prefetcher::Options WorkerProcess::PrefetcherOptions() const {
  Prefetcher::Options options =
      PrefetchOptions(options_.job.input(), options_.job.batch_per_replica());
  // A step takes a batch for each replica here; the next one's are made beside
  // it.
  const uint32_t replicas =
      member_.replicas > 0 ? member_.replicas : ReplicasOf(options_.job);
  options.depth = std::max<uint32_t>(training_->prefetch(), 2 * replicas - 1);
  if (BroughtModel* const brought = model_->brought()) {
    options.on_made = [brought](const Batch& batch) {
      brought->Announce(batch);
    };
  }
  return options;
}

void WorkerProcess::AddTo(Runtime* runtime,
                          const std::function<Core*(Core*)>& around) {
  runtime->AddCore(PeerId::Worker(options_.index),
                   around == nullptr ? &traced_ : around(&traced_));
  runtime->OnStatus([this](v1::StatusReply* status) {
    core_.FillStatus(MonotonicNow(), status);
    const LossScaling scaling = steps_.loss_scaling();
    status->mutable_worker()->set_overflows(scaling.overflows);
    status->mutable_worker()->set_loss_scale(scaling.scale);
    FillInput(status->mutable_worker()->mutable_input());
    FillWait(status);
  });
  HandleComputing(runtime);
  evaluator_.AddTo(runtime);
  runtime->HandleIo(v1::SettingChange::descriptor(),
                    [](Outbox::IoItem item, const Runtime::IoDone& done) {
                      done(HearSetting(*item.head));
                    });
}

void WorkerProcess::HandleComputing(Runtime* runtime) {
  runtime->HandleIo(v1::FetchPortion::descriptor(),
                    [this](Outbox::IoItem item, Runtime::IoDone done) {
                      const auto& fetch =
                          static_cast<const v1::FetchPortion&>(*item.head);
                      const v1::Portion& portion = fetch.portion();
                      GrowingSource* const growing = training_->growing();
                      if (growing != nullptr) growing->Tell(fetch.files());
                      IoResult result;
                      result.status = prefetcher_.Add(ToRange(
                          portion.epoch(), portion.begin(), portion.end()));
                      done(std::move(result));
                    });
  runtime->HandleIo(
      v1::ComputeGradient::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        const auto request =
            static_cast<const v1::ComputeGradient&>(*item.head);
        abandoned_ = false;  // The one before it has ended.
        if (member_.exchange != nullptr) member_.exchange->Expect();
        ready_.Begin();
        computing_.Post([this, request, weights = std::move(item.payload),
                         done = std::move(done)]() mutable {
          // A step of sync mode, which a running job may be set to, is alone.
          if (step_threads_ != nullptr && request.portion() > 0) {
            ComputeConcurrently(request, std::move(weights), std::move(done));
            return;
          }
          IoResult result = Compute(request, std::move(weights));
          ready_.End();
          done(std::move(result));
        });
      });
  runtime->HandleIo(
      v1::CollectRows::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        const auto request = static_cast<const v1::CollectRows&>(*item.head);
        computing_.Post([this, request, done = std::move(done)]() {
          done(CollectRows(request.compute()));
        });
      });
  runtime->HandleIo(v1::TakeGradients::descriptor(),
                    [this](Outbox::IoItem, Runtime::IoDone done) {
                      ready_.Take(std::move(done));
                    });
  runtime->HandleIo(v1::AbandonGradient::descriptor(),
                    [this](Outbox::IoItem, Runtime::IoDone done) {
                      abandoned_ = true;
                      if (member_.exchange != nullptr) {
                        member_.exchange->Interrupt();
                      }
                      done({});
                    });
}

absl::Status WorkerProcess::Announce(const v1::ComputeGradient& request) {
  const Portion wanted =
      ToRange(request.epoch(), request.begin(), request.end());
  // Other contributors, or a step that begins anew: another range than that.
  if (announced_ != wanted) {
    for (const Portion& range : steps_.RangesOf(request, shares_)) {
      RETURN_IF_ERROR(prefetcher_.Add(range));
    }
  }
  announced_.reset();
  if (!request.has_next()) return absl::OkStatus();
  const v1::Portion& portion = request.next();
  announced_ = ToRange(portion.epoch(), portion.begin(), portion.end());
  v1::ComputeGradient next;
  next.set_epoch(portion.epoch());
  next.set_begin(portion.begin());
  next.set_end(portion.end());
  for (const Portion& range : steps_.RangesOf(next, shares_)) {
    RETURN_IF_ERROR(prefetcher_.Add(range));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Batch>> WorkerProcess::TakeBatch(
    const Portion& wanted) {
  while (!kept_.empty()) {
    std::unique_ptr<Batch> kept = std::move(kept_.front());
    kept_.pop_front();
    if (kept->range == wanted) return kept;
    prefetcher_.Recycle(std::move(kept));
  }
  const ChromeTrace::Scope scope(trace_, ChromeTrace::Lane::kCompute,
                                 "wait for a batch");
  // Batches before it are of portions that this worker has no more, or of
  // steps that did not come.
  for (;;) {
    ASSIGN_OR_RETURN(Prefetcher::NextBatch next,
                     prefetcher_.WaitForNext(training_->growing() == nullptr
                                                 ? kInputPatience
                                                 : kFilesPatience));
    if (next.state != Prefetcher::NextBatch::kBatch) {
      return absl::InternalError("the input has ended before the worker");
    }
    if (next.batch->range == wanted) return std::move(next.batch);
    prefetcher_.Recycle(std::move(next.batch));
  }
}

absl::StatusOr<std::unique_ptr<DeviceRing>> WorkerProcess::OpenRing() {
  if (model_->link() != nullptr) return model_->link()->OpenRing();
  return absl::UnimplementedError("it computes in host memory");
}

absl::Status WorkerProcess::Begin(const v1::ComputeGradient& request) {
  if (request.portion() == 0) return Announce(request);
  announced_.reset();
  return absl::OkStatus();
}

IoResult WorkerProcess::CollectRows(const v1::ComputeGradient& request) {
  IoResult result;
  result.status = Begin(request);
  std::deque<std::unique_ptr<Batch>> batches;
  std::vector<std::vector<uint64_t>> rows(CountSparse(model_->variables()));
  for (const Portion& range : steps_.BatchesOf(request, shares_)) {
    if (!result.status.ok()) return result;
    auto batch = TakeBatch(range);
    result.status = batch.ok() ? model_->FindRows(**batch, absl::MakeSpan(rows))
                               : batch.status();
    if (batch.ok()) batches.push_back(*std::move(batch));
  }
  if (!result.status.ok()) return result;
  kept_ = std::move(batches);
  result.payload = PackRows(std::move(rows));
  result.head = std::make_unique<v1::CollectRowsResult>();
  return result;
}

IoResult WorkerProcess::Compute(const v1::ComputeGradient& request,
                                BufferChain weights) {
  const ChromeTrace::Scope scope(trace_, ChromeTrace::Lane::kCompute, "step");
  std::vector<uint64_t> fresh(model_->variables().size());
  for (size_t v = 0; v < fresh.size(); ++v) {
    if (model_->variables()[v].sparse()) fresh[v] = weights[v].size();
  }
  GradientPool::Set gradients =
      pool_.Take(fresh, UnifiedMemoryOf(model_.get()) != nullptr &&
                            !clip_.clips() && steps_.DevicesFinish(request));
  const StepWeights handed = ReadWeights(weights, model_->variables());
  return Pack(request,
              member_.exchange == nullptr
                  ? ComputeAlone(request, handed, &gradients)
                  : ComputeAmongMembers(request, handed, gradients),
              gradients);
}

void WorkerProcess::ComputeConcurrently(const v1::ComputeGradient& request,
                                        BufferChain weights,
                                        Runtime::IoDone done) {
  struct Step {
    v1::ComputeGradient request;
    BufferChain weights;
    StepWeights handed;
    std::unique_ptr<Batch> batch;
    GradientPool::Set gradients;
  };
  auto step = std::make_shared<Step>();
  step->request = request;
  step->weights = std::move(weights);
  step->handed = ReadWeights(step->weights, model_->variables());
  absl::StatusOr<std::unique_ptr<Batch>> batch =
      TakeBatch(ToRange(request.epoch(), request.begin(), request.end()));
  if (!batch.ok()) return done(Pack(request, batch.status(), {}));
  step->batch = *std::move(batch);
  step->gradients = pool_.Take();
  step_threads_->Start(
      {.request = &step->request,
       .weights = &step->handed,
       .batch = step->batch.get(),
       .abandoned = &abandoned_,
       .gradients = step->gradients.mutables},
      [this, step, done](const absl::StatusOr<StepFigures>& computed) {
        prefetcher_.Recycle(std::move(step->batch));
        step->weights.clear();
        done(Pack(step->request, computed, step->gradients));
      });
}

IoResult WorkerProcess::Pack(const v1::ComputeGradient& request,
                             const absl::StatusOr<StepFigures>& computed,
                             const GradientPool::Set& gradients) const {
  IoResult result;
  if (!computed.ok()) {
    result.status = computed.status();
    return result;
  }
  if (clip_.clips()) Clip(request, computed->left_out, gradients.mutables);
  auto head = std::make_unique<v1::ComputeGradientResult>();
  SetMetrics(computed->metrics, head.get());
  // Servers divide a step by this: not what a program may say.
  if (request.divide_by() > 0) {
    head->set_examples(request.end() - request.begin() - computed->left_out);
  }
  result.head = std::move(head);
  result.payload = {gradients.buffers.begin(), gradients.buffers.end()};
  return result;
}

void WorkerProcess::Clip(const v1::ComputeGradient& request, uint64_t left_out,
                         GradientSpans gradients) const {
  const uint64_t examples = request.end() - request.begin();
  if (request.divide_by() == 0) {
    // Else GradientStep has clipped each of several.
    if (examples <= ExamplesPerGradient(options_.job)) clip_.Apply(gradients);
    return;
  }
  if (left_out >= examples) return;  // Then it is of nothing.
  clip_.Apply(gradients, static_cast<double>(request.divide_by()) /
                             static_cast<double>(examples - left_out));
}

void WorkerProcess::Record(size_t variable) const {
  if (trace_ == nullptr || !trace_->is_recording()) return;
  const Time now = MonotonicNow();
  trace_->AddRecorded({.lane = ChromeTrace::Lane::kCompute,
                       .name = "gradient",
                       .begin = now,
                       .end = now,
                       .numbers = {{"variable", variable}}});
}

ReplicaSteps::Source WorkerProcess::Batches() {
  return {.take = [this](const Portion& range) { return TakeBatch(range); },
          .recycle =
              [this](std::unique_ptr<Batch> batch) {
                prefetcher_.Recycle(std::move(batch));
              },
          .peek = [this](size_t ahead) { return prefetcher_.Peek(ahead); }};
}

absl::StatusOr<StepFigures> WorkerProcess::ComputeAlone(
    const v1::ComputeGradient& request, const StepWeights& weights,
    GradientPool::Set* gradients) {
  if (kept_.empty()) RETURN_IF_ERROR(Begin(request));
  // A norm is of all of them: what is clipped by it waits for the first layer.
  const bool by_layers =
      !clip_.clips() && (shares_.size() == 1 || steps_.SumsOnDevices(request));
  uint64_t left_out = 0;
  ReplicaSteps::Source source = Batches();
  source.take =
      [&](const Portion& range) -> absl::StatusOr<std::unique_ptr<Batch>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Batch> batch, TakeBatch(range));
    // What leaves by layers is of one batch of each replica.
    left_out += range.size() - model_->CountedExamples(*batch);
    if (by_layers) ready_.SetLeftOut(left_out);
    return batch;
  };
  const TrainedModel::Take take = [&](size_t variable, Buffer gradient) {
    gradients->buffers[variable] = std::move(gradient);
  };
  // What a program lends it wants back as it was.
  if (!clip_.clips()) steps_.SetTake(&take);
  const absl::StatusOr<Metrics> metrics =
      steps_.Compute(request, shares_, weights, source, &abandoned_,
                     gradients->mutables, [&](size_t variable) {
                       Record(variable);
                       if (!by_layers) return;
                       ready_.Add(static_cast<uint32_t>(variable),
                                  gradients->buffers[variable]);
                     });
  steps_.SetTake(nullptr);
  RETURN_IF_ERROR(metrics.status());
  return StepFigures{*metrics, steps_.left_out()};
}

absl::StatusOr<StepFigures> WorkerProcess::ComputeAmongMembers(
    const v1::ComputeGradient& request, const StepWeights& weights,
    const GradientPool::Set& gradients) {
  while (true) {
    absl::optional<std::vector<uint32_t>> shares =
        member_.exchange->Begin(request, gradients.mutables);
    absl::StatusOr<StepFigures> figures;
    bool lost = false;
    while (shares.has_value()) {
      if (shares_ != *shares) announced_.reset();
      shares_ = *std::move(shares);
      figures = ComputeShares(request, weights, gradients, &lost);
      if (!figures.ok()) break;
      shares = member_.exchange->NextPass();
    }
    if (!lost) return figures;
    announced_.reset();  // What was made for it is used up.
  }
}

absl::StatusOr<StepFigures> WorkerProcess::ComputeShares(
    const v1::ComputeGradient& request, const StepWeights& weights,
    const GradientPool::Set& gradients, bool* lost) {
  const std::vector<std::string> counted = model_->metrics();
  const auto compute = [&]() -> absl::StatusOr<Metrics> {
    RETURN_IF_ERROR(Begin(request));
    steps_.SetRing(member_.exchange->ring());
    if (steps_.SumsOnDevices(request)) member_.exchange->GradientsAreSums();
    return steps_.Compute(
        request, shares_, weights, Batches(), &abandoned_, gradients.mutables,
        [&](size_t variable) { member_.exchange->Ready(variable); });
  };
  const absl::StatusOr<Metrics> computed = compute();
  std::vector<double> figures;
  if (computed.ok()) {
    figures = ToNumbers({*computed, steps_.left_out()}, counted);
  } else {
    // The others wait for this one in vain.
    member_.exchange->Fail(computed.status());
  }
  const absl::Status ended = member_.exchange->End(&figures);
  *lost = computed.ok() && absl::IsUnavailable(ended);
  RETURN_IF_ERROR(computed.status());
  RETURN_IF_ERROR(ended);
  return FromNumbers(figures, counted);
}

void WorkerProcess::FillInput(v1::InputStats* stats) const {
  const Prefetcher::Figures figures = prefetcher_.figures();
  stats->set_batches(figures.batches);
  stats->set_ready_batches(figures.ready_now);
  stats->set_wait_seconds(absl::ToDoubleSeconds(figures.waited));
  stats->set_elapsed_seconds(absl::ToDoubleSeconds(figures.elapsed));
  stats->set_threads(figures.threads);
  stats->set_skipped_examples(training_->skipped());
  if (training_->growing() != nullptr) {
    const TopicCounters& counters = training_->growing()->counters();
    stats->set_empty_offsets(counters.empty_offsets);
    stats->set_gone_messages(counters.gone_messages);
    stats->set_joined_clicks(counters.joined_clicks);
    stats->set_late_clicks(counters.late_clicks);
    stats->set_stray_clicks(counters.stray_clicks);
  }
  for (const Pipeline::StageTime& time : training_->StageTimes()) {
    v1::InputStats::Stage* const stage = stats->add_stages();
    stage->set_name(time.name);
    stage->set_seconds(absl::ToDoubleSeconds(time.time));
  }
}

// Nothing that the core knows of: a thread of the input does.
void WorkerProcess::FillWait(v1::StatusReply* status) const {
  const GrowingSource* const growing = training_->growing();
  if (growing == nullptr) return;
  const Topic::Wait waiting = growing->waiting();
  if (waiting.whom.empty()) return;
  v1::Wait* const wait = status->add_waits();
  wait->set_who(PeerName(PeerId::Worker(options_.index)));
  wait->set_whom(waiting.whom);
  wait->set_since_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(waiting.since)));
}

}  // namespace paramd
