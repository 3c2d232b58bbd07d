#include "absl/strings/str_cat.h"

#include "process/observe/metric_table.h"

namespace paramd::metric_table {
namespace {

void FillSteps(const Source& from, Samples* to) {
  if (from.worker().steps().count() == 0) return;
  to->Add(HistogramOf(from.worker().steps()));
}

void FillPulls(const Source& from, Samples* to) {
  for (int i = 0; i < from.worker().pull_p50_ms_size(); ++i) {
    to->Add(from.worker().pull_p50_ms(i) / 1000,
            {{"server", absl::StrCat("ps-", i)}});
  }
}

void FillInputStages(const Source& from, Samples* to) {
  for (const v1::InputStats::Stage& stage : from.worker().input().stages()) {
    to->Add(stage.seconds(), {{"stage", stage.name()}});
  }
}

template <auto Figure>
void OfWorker(const Source& from, Samples* to) {
  if (from.status.has_worker()) {
    to->Add(static_cast<double>((from.worker().*Figure)()));
  }
}

template <auto Figure>
void OfInput(const Source& from, Samples* to) {
  if (from.worker().has_input()) {
    to->Add(static_cast<double>((from.worker().input().*Figure)()));
  }
}

constexpr Metric kWorkerMetrics[] = {
    {"paramd_worker_step_seconds", kHistogram, "",
     "Time from one gradient to the next, while the worker trains.", FillSteps},
    {"paramd_worker_trained_examples_per_second", kGauge, "",
     "Examples trained on, over the last steps.",
     OfWorker<&v1::WorkerStats::examples_per_second>},
    {"paramd_worker_loss_per_example", kGauge, "",
     "Mean loss of the last steps.", OfWorker<&v1::WorkerStats::loss>},
    {"paramd_worker_begun_epochs", kGauge, "",
     "The epoch that this worker is in, from 1.",
     OfWorker<&v1::WorkerStats::epoch>},
    {"paramd_worker_acknowledged_pushes_total", kCounter, "",
     "Pushes that every server has acknowledged.",
     OfWorker<&v1::WorkerStats::pushes>},
    {"paramd_worker_given_up_pushes_total", kCounter, "",
     "Pushes that a server did not acknowledge in time.",
     OfWorker<&v1::WorkerStats::given_up>},
    {"paramd_worker_quarantined_pushes_total", kCounter, "",
     "Pushes that a server refused for their numbers.",
     OfWorker<&v1::WorkerStats::quarantined>},
    {"paramd_worker_overflowed_batches_total", kCounter, "",
     "How often gradients of a batch in fp16 were not finite and were computed "
     "again with half the loss scale.",
     OfWorker<&v1::WorkerStats::overflows>},
    {"paramd_worker_loss_scale_ratio", kGauge, "",
     "What the loss was multiplied by for the last gradient of fp16; 0: by "
     "nothing.",
     OfWorker<&v1::WorkerStats::loss_scale>},
    {"paramd_worker_spoiled_sessions_total", kCounter, "",
     "Sessions that ended because a server held what they had not sent.",
     OfWorker<&v1::WorkerStats::spoiled_sessions>},
    {"paramd_worker_median_pull_seconds", kGauge, "server",
     "Median duration of the last pulls from one server.", FillPulls},
    {"paramd_worker_input_batches_total", kCounter, "",
     "Batches that were handed over for computing gradients.",
     OfInput<&v1::InputStats::batches>},
    {"paramd_worker_input_ready_batches", kGauge, "",
     "Batches that are made and wait to be computed on.",
     OfInput<&v1::InputStats::ready_batches>},
    {"paramd_worker_input_wait_seconds_total", kCounter, "",
     "How long computing waited for a batch.",
     OfInput<&v1::InputStats::wait_seconds>},
    {"paramd_worker_input_making_threads", kGauge, "",
     "Threads that make batches; auto changes their number.",
     OfInput<&v1::InputStats::threads>},
    {"paramd_worker_input_skipped_examples_total", kCounter, "",
     "Examples that were left out because they could not be read or mapped.",
     OfInput<&v1::InputStats::skipped_examples>},
    {"paramd_worker_input_empty_offsets_total", kCounter, "",
     "Offsets of a topic of Kafka that had no message to train on.",
     OfInput<&v1::InputStats::empty_offsets>},
    {"paramd_worker_input_gone_messages_total", kCounter, "",
     "Messages of a topic of Kafka that were deleted before they were read.",
     OfInput<&v1::InputStats::gone_messages>},
    {"paramd_worker_input_joined_clicks_total", kCounter, "",
     "With input.train.kafka.join, clicks whose example is within the window.",
     OfInput<&v1::InputStats::joined_clicks>},
    {"paramd_worker_input_late_clicks_total", kCounter, "",
     "With input.train.kafka.join, clicks whose example is further away in "
     "time "
     "than the window.",
     OfInput<&v1::InputStats::late_clicks>},
    {"paramd_worker_input_stray_clicks_total", kCounter, "",
     "With input.train.kafka.join, clicks of which no example was found.",
     OfInput<&v1::InputStats::stray_clicks>},
    {"paramd_worker_input_stage_seconds_total", kCounter, "stage",
     "What a stage of the input took itself, all threads together; an estimate "
     "from one example in sixteen.",
     FillInputStages},
};

}  // namespace

absl::Span<const Metric> OfWorkers() { return kWorkerMetrics; }

}  // namespace paramd::metric_table
