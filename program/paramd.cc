#include "program/paramd.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "base/crc32c.h"
#include "client/cluster.h"
#include "compute/pipeline/schedule.h"
#include "compute/pipeline/stage_order.h"
#include "process/version.h"
#include "program/program_worker.h"

struct paramd_worker {
  std::unique_ptr<paramd::ProgramWorker> worker;
  size_t variables = 0;
  // What the work that is held points to.
  std::vector<const float*> weights;
  std::vector<float*> gradients;
  std::vector<int64_t> upcoming;
  std::vector<uint64_t> returned;
  std::vector<paramd_epoch> epochs;
  std::string run_dir;
};

namespace {

// Programs hand these over without saying how long they are.
static_assert(sizeof(paramd_variable) == 32);
static_assert(sizeof(paramd_work) == 56);
static_assert(sizeof(paramd_result) == 32);
static_assert(sizeof(paramd_epoch) == 24);
static_assert(sizeof(paramd_pulled) == 32);
static_assert(sizeof(paramd_saved) == 32);
static_assert(sizeof(paramd_weights) == 32);
static_assert(sizeof(paramd_pass) == 16);
static_assert(sizeof(paramd_schedule) == 24);

// What paramd_pull hands out, with what it points to.
struct OwnedWeights : paramd_weights {
  paramd::Cluster::Weights pulled;
  std::vector<paramd_pulled> views;
};

// What paramd_saved_find hands out, with what it points to.
struct OwnedSaved : paramd_saved {
  paramd::ProgramWorker::Saved from;
  std::vector<const float*> views;
};

// What paramd_schedule_make hands out, with what it points to.
struct OwnedSchedule : paramd_schedule {
  std::vector<paramd_pass> list;
  std::vector<uint32_t> live;
};

using paramd::Metrics;
using paramd::PipelineOp;
using paramd::ProgramWork;
using paramd::ProgramWorker;

thread_local std::string last_error;

int Report(const absl::Status& status) {
  if (!status.ok()) last_error = std::string(status.message());
  return static_cast<int>(status.code());
}

std::string OrEmpty(const char* text) { return text == nullptr ? "" : text; }

uint64_t AddVariable(const paramd_variable& from,
                     paramd::ProgramModel::Options* model) {
  paramd::v1::Variable& variable = model->variables.emplace_back();
  variable.set_name(OrEmpty(from.name));
  variable.set_dtype(paramd::v1::FLOAT32);
  variable.set_untrained(from.untrained != 0);
  uint64_t elements = 1;
  for (uint32_t d = 0; d < from.rank; ++d) {
    variable.add_shape(from.shape[d]);
    elements *= from.shape[d];
  }
  return elements;
}

absl::Status AddVariables(const paramd_worker_options& from,
                          paramd::ProgramModel::Options* model) {
  const size_t count = from.variable_count;
  for (size_t v = 0; v < count; ++v) {
    const paramd_variable& variable = from.variables[v];
    const uint64_t elements = AddVariable(variable, model);
    if (from.sparse != nullptr && from.sparse[v] != 0) {
      model->variables.back().set_sparse(true);
    }
    if (from.compute_dtypes != nullptr) {
      model->variables.back().set_compute_dtype(
          OrEmpty(from.compute_dtypes[v]));
    }
    if (from.weights_memory != nullptr) {
      model->lent_weights.push_back(
          {from.weights_memory[2 * v], from.weights_memory[2 * v + 1]});
    }
    if ((variable.initial == nullptr) !=
        (from.variables[0].initial == nullptr)) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", OrEmpty(variable.name),
                       "': give initial values of all variables, or of none"));
    }
    if (variable.initial == nullptr) continue;
    model->initial_values.emplace_back(variable.initial,
                                       variable.initial + elements);
  }
  return absl::OkStatus();
}

// As this version has it, of a program that may be older.
absl::StatusOr<paramd_worker_options> Whole(
    const paramd_worker_options* given) {
  const size_t size = given->size;
  paramd_worker_options whole = {};
  if (size < sizeof(whole.size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("paramd_worker_options.size is ", size,
                     ": set it to sizeof(paramd_worker_options)"));
  }
  if (size > sizeof(whole)) {
    return absl::InvalidArgumentError(
        absl::StrCat("paramd_worker_options has ", size,
                     " bytes, of which the library knows ", sizeof(whole),
                     ": the header is of a newer version than the library"));
  }
  std::memcpy(&whole, given, size);
  return whole;
}

absl::StatusOr<ProgramWorker::Options> ToOptions(
    const paramd_worker_options& from) {
  ProgramWorker::Options options;
  options.job_path = OrEmpty(from.job_path);
  if (from.job != nullptr) options.job_text = from.job;
  for (size_t s = 0; s < from.setting_count; ++s) {
    options.settings.emplace_back(OrEmpty(from.settings[2 * s]),
                                  OrEmpty(from.settings[2 * s + 1]));
  }
  const absl::Status added = AddVariables(from, &options.model);
  if (!added.ok()) return added;
  options.model.evaluates = from.test_examples > 0;
  options.training_examples = from.training_examples;
  options.test_examples = from.test_examples;
  options.insecure = from.insecure != 0;
  options.tls_dir = OrEmpty(from.tls_dir);
  return options;
}

paramd_work_kind KindOf(ProgramWork::Kind kind) {
  switch (kind) {
    case ProgramWork::Kind::kStep:
      return PARAMD_STEP;
    case ProgramWork::Kind::kEvaluate:
      return PARAMD_EVALUATE;
    case ProgramWork::Kind::kFindRows:
      return PARAMD_FIND_ROWS;
    case ProgramWork::Kind::kFindTestRows:
      return PARAMD_FIND_TEST_ROWS;
  }
  return PARAMD_END;
}

int PassKindOf(PipelineOp::Kind kind) {
  switch (kind) {
    case PipelineOp::Kind::kForward:
      return PARAMD_FORWARD;
    case PipelineOp::Kind::kBackwardInput:
      return PARAMD_BACKWARD_INPUT;
    case PipelineOp::Kind::kBackwardWeights:
      return PARAMD_BACKWARD_VARIABLES;
    default:  // An order has passes alone.
      return PARAMD_BACKWARD;
  }
}

absl::Status NoVariable(size_t variable) {
  return absl::InvalidArgumentError(
      absl::StrCat("there is no variable ", variable));
}

void Show(const ProgramWork& from, paramd_worker* worker, paramd_work* to) {
  worker->weights.clear();
  for (const auto& weights : from.weights) {
    worker->weights.push_back(weights.data());
  }
  worker->gradients.clear();
  for (const auto& gradients : from.gradients) {
    worker->gradients.push_back(gradients.data());
  }
  to->kind = KindOf(from.kind);
  to->epoch = from.range.epoch;
  to->indices = from.indices.data();
  to->index_count = from.indices.size();
  to->weights = worker->weights.data();
  to->gradients = worker->gradients.data();
  to->divisor = from.divisor;
}

int Show(absl::StatusOr<ProgramWorker::Saved> from,
         const paramd_saved** saved) {
  *saved = nullptr;
  if (!from.ok()) return Report(from.status());
  auto owned = std::make_unique<OwnedSaved>();
  owned->from = *std::move(from);
  for (const std::vector<float>& values : owned->from.weights) {
    owned->views.push_back(values.data());
  }
  owned->checkpoint = owned->from.run.path.c_str();
  owned->epoch = owned->from.run.epoch;
  owned->is_over = owned->from.run.is_over ? 1 : 0;
  owned->weights = owned->views.data();
  *saved = owned.release();
  return PARAMD_OK;
}

}  // namespace

int paramd_abi_version(void) { return PARAMD_ABI_VERSION; }

const char* paramd_version(void) {
  static const std::string& version = *new std::string(
      absl::StrCat(paramd::ParamdVersion(), " ", paramd::ParamdCommit()));
  return version.c_str();
}

const char* paramd_error(void) { return last_error.c_str(); }

uint32_t paramd_crc32c(const void* bytes, size_t size) {
  return paramd::Crc32c(
      absl::MakeConstSpan(static_cast<const std::byte*>(bytes), size));
}

int paramd_worker_start(const paramd_worker_options* options,
                        paramd_worker** worker) {
  *worker = nullptr;
  const auto whole = Whole(options);
  if (!whole.ok()) return Report(whole.status());
  auto converted = ToOptions(*whole);
  if (!converted.ok()) return Report(converted.status());
  auto started = ProgramWorker::Start(*std::move(converted));
  if (!started.ok()) return Report(started.status());
  *worker = new paramd_worker{
      *std::move(started), whole->variable_count, {}, {}, {}, {}, {}, {}};
  (*worker)->run_dir = (*worker)->worker->run_dir();
  return PARAMD_OK;
}

int paramd_worker_next(paramd_worker* worker, double seconds,
                       paramd_work* work) {
  *work = {};
  const auto next = worker->worker->Next(absl::Seconds(seconds));
  if (!next.ok()) return Report(next.status());
  if (*next != nullptr) Show(**next, worker, work);
  return PARAMD_OK;
}

int paramd_worker_found_rows(paramd_worker* worker, size_t variable,
                             const int64_t* rows, uint64_t count) {
  if (variable >= worker->variables) return Report(NoVariable(variable));
  return Report(worker->worker->FoundRows(variable, {rows, count}));
}

int paramd_worker_rows(paramd_worker* worker, size_t variable,
                       const uint64_t** rows, uint64_t* count) {
  if (variable >= worker->variables) return Report(NoVariable(variable));
  const absl::Span<const uint64_t> found = worker->worker->RowsOf(variable);
  *rows = found.data();
  *count = found.size();
  return PARAMD_OK;
}

int paramd_worker_upcoming(paramd_worker* worker, const int64_t** indices,
                           uint64_t* count) {
  worker->upcoming = worker->worker->TakeUpcoming();
  *indices = worker->upcoming.data();
  *count = worker->upcoming.size();
  return PARAMD_OK;
}

int paramd_worker_gradient_ready(paramd_worker* worker, size_t variable) {
  if (variable >= worker->variables) return Report(NoVariable(variable));
  return Report(worker->worker->GradientReady(variable));
}

int paramd_worker_lend_gradients(paramd_worker* worker, size_t first,
                                 size_t count, const float* const* gradients,
                                 uint64_t number) {
  if (first > worker->variables || count > worker->variables - first) {
    return Report(NoVariable(std::max(first, worker->variables)));
  }
  for (size_t v = 0; v < count; ++v) {
    const absl::Status lent =
        worker->worker->LendGradient(first + v, gradients[v], number);
    if (!lent.ok()) return Report(lent);
  }
  return PARAMD_OK;
}

int paramd_worker_leave_untouched(paramd_worker* worker, size_t variable) {
  if (variable >= worker->variables) return Report(NoVariable(variable));
  return Report(worker->worker->LeaveUntouched(variable));
}

int paramd_worker_returned(paramd_worker* worker, const uint64_t** numbers,
                           uint64_t* count) {
  worker->returned = worker->worker->TakeReturned();
  *numbers = worker->returned.data();
  *count = worker->returned.size();
  return PARAMD_OK;
}

int paramd_worker_recompute(paramd_worker* worker) {
  return Report(worker->worker->Recompute());
}

int paramd_worker_finish(paramd_worker* worker, const paramd_result* result) {
  Metrics metrics;
  metrics.loss_sum = result->loss_sum;
  metrics.examples = result->examples;
  metrics.correct = result->correct;
  metrics.labels = result->labels;
  return Report(worker->worker->Finish(metrics));
}

int paramd_worker_set(paramd_worker* worker, const char* key,
                      const char* value) {
  return Report(worker->worker->Set(key, value));
}

int paramd_worker_training(paramd_worker* worker, const paramd_epoch** epochs,
                           size_t* count) {
  worker->epochs.clear();
  for (const auto& epoch : worker->worker->training()) {
    worker->epochs.push_back({.epoch = epoch.epoch(),
                              .examples = epoch.examples(),
                              .loss = epoch.loss()});
  }
  *epochs = worker->epochs.data();
  *count = worker->epochs.size();
  return PARAMD_OK;
}

int paramd_saved_find(const paramd_worker_options* options,
                      const paramd_saved** saved) {
  *saved = nullptr;
  const auto whole = Whole(options);
  if (!whole.ok()) return Report(whole.status());
  const auto converted = ToOptions(*whole);
  if (!converted.ok()) return Report(converted.status());
  return Show(ProgramWorker::FindSaved(*converted), saved);
}

int paramd_worker_saved(paramd_worker* worker, const paramd_saved** saved) {
  return Show(worker->worker->ReadSaved(), saved);
}

const char* paramd_worker_run_dir(paramd_worker* worker) {
  return worker->run_dir.c_str();
}

void paramd_saved_free(const paramd_saved* saved) {
  delete static_cast<const OwnedSaved*>(saved);
}

int paramd_worker_close(paramd_worker* worker) {
  if (worker == nullptr) return PARAMD_OK;
  const absl::Status status = worker->worker->Close();
  delete worker;
  return Report(status);
}

int paramd_pull(const char* address, const char* tls_dir,
                const char* const* names, size_t name_count, double seconds,
                const paramd_weights** weights) {
  *weights = nullptr;
  const paramd::Cluster cluster({.address = OrEmpty(address),
                                 .tls_dir = OrEmpty(tls_dir),
                                 .timeout_seconds = seconds});
  std::vector<std::string> wanted;
  for (size_t n = 0; n < name_count; ++n) wanted.push_back(OrEmpty(names[n]));
  auto pulled = cluster.Pull(wanted);
  if (!pulled.ok()) {
    return Report(absl::Status(static_cast<absl::StatusCode>(pulled.code),
                               pulled.message));
  }
  auto owned = std::make_unique<OwnedWeights>();
  owned->pulled = std::move(pulled.value);
  for (const paramd::Cluster::Tensor& tensor : owned->pulled.tensors) {
    const paramd::Cluster::Variable& variable = tensor.variable;
    owned->views.push_back({variable.name.c_str(), variable.shape.data(),
                            static_cast<uint32_t>(variable.shape.size()),
                            tensor.values.data()});
  }
  owned->variables = owned->views.data();
  owned->count = owned->views.size();
  owned->least_step = owned->pulled.least_step;
  owned->most_step = owned->pulled.most_step;
  *weights = owned.release();
  return PARAMD_OK;
}

void paramd_weights_free(const paramd_weights* weights) {
  delete static_cast<const OwnedWeights*>(weights);
}

int paramd_schedule_make(const char* name, uint32_t stages,
                         uint32_t stages_per_device, uint32_t micro_batches,
                         const paramd_schedule** schedule) {
  *schedule = nullptr;
  const auto made = paramd::ScheduleByName(OrEmpty(name), stages,
                                           stages_per_device, micro_batches);
  if (!made.ok()) return Report(made.status());
  auto needs = paramd::CheckSchedule(*made);
  if (!needs.ok()) return Report(needs.status());
  auto owned = std::make_unique<OwnedSchedule>();
  for (const PipelineOp& op : paramd::InOneOrder(*made)) {
    owned->list.push_back({.kind = PassKindOf(op.kind),
                           .stage = op.stage,
                           .micro_batch = op.micro_batch,
                           .device = made->DeviceOf(op.stage)});
  }
  owned->live = std::move(needs->live);
  owned->passes = owned->list.data();
  owned->count = owned->list.size();
  owned->kept = owned->live.data();
  *schedule = owned.release();
  return PARAMD_OK;
}

void paramd_schedule_free(const paramd_schedule* schedule) {
  delete static_cast<const OwnedSchedule*>(schedule);
}
