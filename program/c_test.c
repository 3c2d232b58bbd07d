/* A line fitted by a program in C: what paramd.h promises, in C and by the
 * shared library alone. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/paramd.h"

#define EXAMPLES 64
/* More batches than are ever under way at once. */
#define LOANS 16

static int failures = 0;
static float memory[4];

static void Check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "FAILED: %s; last error: %s\n", what, paramd_error());
  ++failures;
}

/* y = 3x - 1 at x = i / EXAMPLES, by w x + b. */
static paramd_result Compute(const paramd_work* work) {
  paramd_result result = {0, 0, 0, 0};
  const float w = work->weights[0][0], b = work->weights[1][0];
  double dw = 0, db = 0;
  for (uint64_t i = 0; i < work->index_count; ++i) {
    const double x = (double)work->indices[i] / EXAMPLES;
    const double error = w * x + b - (3 * x - 1);
    result.loss_sum += error * error;
    dw += 2 * error * x;
    db += 2 * error;
    ++result.examples;
  }
  if (work->kind == PARAMD_STEP) {
    work->gradients[0][0] = (float)(dw / work->divisor);
    work->gradients[1][0] = (float)(db / work->divisor);
  }
  return result;
}

static paramd_worker_options Options(const char* epochs) {
  static const uint64_t shape[1] = {1};
  static const float initial[2] = {2, 0.5f};
  static const paramd_variable variables[2] = {{"w", shape, 1, 0, initial},
                                               {"b", shape, 1, 0, initial + 1}};
  static const char* const compute_dtypes[2] = {"float64", NULL};
  static float* const weights_memory[4] = {memory, memory + 1, NULL, NULL};
  const char* directory = getenv("TEST_TMPDIR");
  static const char* settings[6] = {"epochs", NULL,        "run_dir",
                                    NULL,     "log_level", "error"};
  static char run_dir[4096];
  paramd_worker_options options;
  snprintf(run_dir, sizeof run_dir, "%s/run-%s", directory, epochs);
  settings[1] = epochs;
  settings[3] = run_dir;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.job =
      "{\"name\": \"line\", \"model\": {\"custom\": true}, "
      "\"batch_per_replica\": 8, "
      "\"optimizer\": {\"sgd\": {}, \"learning_rate\": 0.2}}";
  options.settings = settings;
  options.setting_count = 3;
  options.variables = variables;
  options.variable_count = 2;
  options.training_examples = EXAMPLES;
  options.test_examples = 8;
  options.compute_dtypes = compute_dtypes;
  options.weights_memory = weights_memory;
  return options;
}

/* `size`: of the options, as the program's header has them. */
static paramd_worker* StartSized(const char* epochs, size_t size, int* code) {
  paramd_worker* worker = NULL;
  paramd_worker_options options = Options(epochs);
  options.size = size;
  *code = paramd_worker_start(&options, &worker);
  return worker;
}

static paramd_worker* Start(const char* epochs, int* code) {
  return StartSized(epochs, sizeof(paramd_worker_options), code);
}

static void ServesAnOlderHeader(void) {
  int code;
  paramd_worker* worker =
      StartSized("1", offsetof(paramd_worker_options, insecure), &code);
  Check(code == PARAMD_OK && worker != NULL, "the end may be missing");
  Check(paramd_worker_close(worker) == PARAMD_CANCELLED, "it leaves");
  worker = StartSized("1", sizeof(paramd_worker_options) + 8, &code);
  Check(code == PARAMD_INVALID_ARGUMENT && worker == NULL &&
            strstr(paramd_error(), "of a newer version") != NULL,
        "a newer header is refused");
  worker = StartSized("1", 0, &code);
  Check(code == PARAMD_INVALID_ARGUMENT && worker == NULL &&
            strstr(paramd_error(), "set it to sizeof") != NULL,
        "the size is set");
}

/* Has the gradient of w read from a place of the program's. */
static void Lend(paramd_worker* worker, const paramd_work* work) {
  static float gradients[LOANS];
  static uint64_t lent = 0, returned = 0;
  float* const place = &gradients[++lent % LOANS];
  const float* const places[1] = {place};
  const uint64_t* numbers;
  uint64_t count, i;
  Check(lent - returned < LOANS, "gradients come back");
  *place = work->gradients[0][0];
  work->gradients[0][0] = 0;
  Check(paramd_worker_lend_gradients(worker, 0, 1, places, lent) == PARAMD_OK,
        "w is lent");
  Check(paramd_worker_lend_gradients(worker, 2, 1, places, lent) ==
            PARAMD_INVALID_ARGUMENT,
        "there is no third variable to lend");
  Check(paramd_worker_lend_gradients(worker, 1, SIZE_MAX, places, lent) ==
            PARAMD_INVALID_ARGUMENT,
        "nor that many");
  Check(paramd_worker_returned(worker, &numbers, &count) == PARAMD_OK,
        "it says what came back");
  for (i = 0; i < count; ++i) {
    Check(numbers[i] == ++returned, "each comes back once, in order");
    gradients[numbers[i] % LOANS] = -1000;
  }
}

/* The weights that the job ended with, also for a program that is run again. */
static void HasWhatWasSaved(paramd_worker* worker) {
  paramd_worker_options options = Options("60");
  const paramd_saved* saved = NULL;
  const paramd_saved* found = NULL;
  Check(paramd_worker_saved(worker, &saved) == PARAMD_OK, "it was saved");
  Check(strncmp(saved->checkpoint, paramd_worker_run_dir(worker),
                strlen(paramd_worker_run_dir(worker))) == 0,
        "it is in the run's directory");
  Check(saved->is_over && saved->epoch == 61, "all of it is trained");
  Check(saved->weights[0][0] > 2.9f && saved->weights[0][0] < 3.1f,
        "its weights are the trained ones");
  options.training_examples = 0;
  Check(paramd_saved_find(&options, &found) == PARAMD_OK, "it is found");
  Check(strcmp(found->checkpoint, saved->checkpoint) == 0, "it is the same");
  Check(found->weights[1][0] == saved->weights[1][0], "with its weights");
  paramd_saved_free(found);
  paramd_saved_free(saved);
  options = Options("59");
  Check(
      paramd_saved_find(&options, &found) == PARAMD_NOT_FOUND && found == NULL,
      "another run has nothing");
  paramd_saved_free(NULL);
}

static void TrainsToTheEnd(void) {
  int code, evaluated = 0;
  double loss = 1;
  paramd_work work;
  const int64_t* upcoming;
  uint64_t count, announced = 0;
  paramd_worker* worker = Start("60", &code);
  Check(code == PARAMD_OK, "the worker starts");
  while ((code = paramd_worker_next(worker, 300, &work)) == PARAMD_OK &&
         work.kind != PARAMD_END) {
    const paramd_result result = Compute(&work);
    if (work.kind == PARAMD_EVALUATE) evaluated += (int)work.index_count;
    while (paramd_worker_upcoming(worker, &upcoming, &count) == PARAMD_OK &&
           count > 0) {
      announced += count;
      Check(upcoming[0] >= 0 && upcoming[0] < EXAMPLES, "they are examples");
    }
    if (work.kind == PARAMD_STEP) {
      loss = result.loss_sum / (double)result.examples;
      Check(work.weights[0] == memory || work.weights[0] == memory + 1,
            "the weights of w lie where they may");
      Lend(worker, &work);
      Check(paramd_worker_gradient_ready(worker, 1) == PARAMD_OK, "b is ready");
    }
    Check(paramd_worker_finish(worker, &result) == PARAMD_OK, "it finishes");
  }
  Check(code == PARAMD_OK && work.kind == PARAMD_END, "the job ends");
  Check(announced > 0, "batches are announced");
  Check(loss < 1e-3, "the line is found");
  Check(evaluated >= 8, "the test data are evaluated");
  HasWhatWasSaved(worker);
  Check(paramd_worker_close(worker) == PARAMD_OK, "the worker closes");
}

static void SaysWhatIsWrong(void) {
  int code;
  paramd_work work;
  paramd_result result;
  paramd_worker* worker = Start("none", &code);
  Check(code == PARAMD_INVALID_ARGUMENT && worker == NULL, "no such number");
  Check(strstr(paramd_error(), "epochs: wants a whole number") != NULL,
        "it names the setting");
  worker = Start("2", &code);
  Check(paramd_worker_next(worker, 300, &work) == PARAMD_OK, "there is work");
  result = Compute(&work);
  work.gradients[0][0] = 0.0f / 0.0f;
  Check(paramd_worker_finish(worker, &result) == PARAMD_INVALID_ARGUMENT &&
            strstr(paramd_error(), "gradient of 'w'") != NULL,
        "NaN is refused");
  Check(paramd_worker_gradient_ready(worker, 0) == PARAMD_INVALID_ARGUMENT,
        "NaN does not leave");
  Check(paramd_worker_recompute(worker) == PARAMD_OK, "it may be mended");
  Check(paramd_worker_set(worker, "learning_rate_scale", "0.5") == PARAMD_OK,
        "the chief sets a scale of rates");
  Check(paramd_worker_set(worker, "learning_rate_scale", "-1") ==
            PARAMD_INVALID_ARGUMENT,
        "which is not below 0");
  Check(
      paramd_worker_set(worker, "staleness", "sync") == PARAMD_INVALID_ARGUMENT,
      "and no other setting");
  Check(paramd_worker_set(worker, "learning_rate_scale", "1") == PARAMD_OK,
        "as it was");
  Check(paramd_worker_next(worker, 0, &work) == PARAMD_FAILED_PRECONDITION,
        "one at a time");
  Check(paramd_worker_gradient_ready(worker, 2) == PARAMD_INVALID_ARGUMENT,
        "there is no third variable");
  Check(paramd_worker_close(worker) == PARAMD_CANCELLED, "it leaves");
  Check(paramd_worker_close(NULL) == PARAMD_OK, "null is left alone");
}

static void SaysWhoDoesNotAnswer(void) {
  const paramd_weights* weights = NULL;
  const char* name = "w";
  Check(paramd_pull("127.0.0.1:1", NULL, &name, 1, 5, &weights) ==
            PARAMD_UNAVAILABLE,
        "nobody listens there");
  Check(strstr(paramd_error(), "127.0.0.1:1") != NULL, "it is named");
  Check(weights == NULL, "there are no weights");
  paramd_weights_free(weights);
}

static void SaysWhatStagesComputeWhen(void) {
  const paramd_schedule* schedule = NULL;
  const paramd_pass* pass;
  size_t i, last = 0;
  Check(paramd_schedule_make("1f1b", 3, 1, 4, &schedule) == PARAMD_OK,
        "there is a schedule");
  if (schedule == NULL) return;
  Check(schedule->count == 24, "each micro-batch passes each stage twice");
  pass = schedule->passes;
  Check(pass->kind == PARAMD_FORWARD && pass->stage == 0 &&
            pass->micro_batch == 0 && pass->device == 0,
        "the first micro-batch begins");
  for (i = 0; i < schedule->count; ++i) {
    if (schedule->passes[i].stage == 0) last = i;
  }
  Check(last + 1 == schedule->count &&
            schedule->passes[last].kind == PARAMD_BACKWARD &&
            schedule->passes[last].micro_batch == 3,
        "the first stage ends");
  Check(schedule->kept[0] == 3 && schedule->kept[1] == 2 &&
            schedule->kept[2] == 1,
        "1f1b keeps few");
  paramd_schedule_free(schedule);
  Check(paramd_schedule_make("2bw", 3, 1, 4, &schedule) ==
            PARAMD_INVALID_ARGUMENT,
        "it has no flush");
  Check(schedule == NULL && strstr(paramd_error(), "'2bw'") != NULL,
        "it is named");
  paramd_schedule_free(schedule);
}

int main(void) {
  Check(paramd_abi_version() == PARAMD_ABI_VERSION, "the version fits");
  Check(paramd_crc32c("123456789", 9) == 0xe3069283, "it is crc32c");
  ServesAnOlderHeader();
  TrainsToTheEnd();
  SaysWhatIsWrong();
  SaysWhoDoesNotAnswer();
  SaysWhatStagesComputeWhen();
  return failures == 0 ? 0 : 1;
}
