/* paramd inside a program: a worker of a job that keeps its own model and data.
 *
 *   paramd_worker_options options = {sizeof options};
 *   options.job = "{\"name\": \"own\", \"model\": {\"custom\": true}, "
 *                 "\"optimizer\": {\"adam\": {}, \"learning_rate\": 0.001}}";
 *   options.variables = variables;
 *   options.variable_count = 2;
 *   options.training_examples = 60000;
 *   paramd_worker* worker;
 *   if (paramd_worker_start(&options, &worker) != PARAMD_OK)
 * fail(paramd_error()); paramd_work work; while (paramd_worker_next(worker,
 * 3600, &work) == PARAMD_OK && work.kind != PARAMD_END) {
 *     ... gradients of the examples work.indices into work.gradients ...
 *     paramd_worker_finish(worker, &result);
 *   }
 *   const paramd_saved* saved;
 *   paramd_worker_saved(worker, &saved);  ... the trained weights:
 * saved->weights paramd_worker_close(worker);
 *
 * Which task of which cluster this is TF_CONFIG says, as to `paramd run`;
 * without it the servers are in this process too. paramd starts threads: fork
 * before the first worker is started, not after.
 *
 * Every function returns PARAMD_OK or another paramd_code; paramd_error() is
 * then a sentence that says what to do, good until the same thread's next call.
 * Functions of one worker are called by one thread at a time.
 *
 * paramd_pull, at the end, reads the weights of a job without being part of it.
 */
#ifndef PARAMD_PROGRAM_PARAMD_H_
#define PARAMD_PROGRAM_PARAMD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something is added; a library of a greater one serves: only
 * paramd_worker_options grows, by fields whose zero means what it was without
 * them; everything else that is new is a function. */
#define PARAMD_ABI_VERSION 10

#define PARAMD_PUBLIC __attribute__((visibility("default")))

/* The numbers are gRPC's. */
typedef enum paramd_code {
  PARAMD_OK = 0,
  /* Somebody told this process to stop, or it left the job. */
  PARAMD_CANCELLED = 1,
  /* What was given is wrong: the job, the model, a number that is not finite.
   */
  PARAMD_INVALID_ARGUMENT = 3,
  /* Nothing came in the time given. */
  PARAMD_DEADLINE_EXCEEDED = 4,
  /* Another process has this task. */
  PARAMD_ALREADY_EXISTS = 6,
  /* Of paramd_pull: the job has no such variable. Of paramd_saved_find and
   * paramd_worker_saved: there is no checkpoint. */
  PARAMD_NOT_FOUND = 5,
  /* Not now: for instance finish without a batch. */
  PARAMD_FAILED_PRECONDITION = 9,
  /* Of the batch that is held: a part of it was pushed, and the rest can't be.
   * Of next: another process has taken this worker's place. */
  PARAMD_ABORTED = 10,
  /* Not with these settings. */
  PARAMD_UNIMPLEMENTED = 12,
  /* Something was lost that may come back: starting again goes on. */
  PARAMD_UNAVAILABLE = 14
} paramd_code;

/* Of the library that is loaded. */
PARAMD_PUBLIC int paramd_abi_version(void);
/* "0.5.0 commit" */
PARAMD_PUBLIC const char* paramd_version(void);
/* Of this thread's last call that failed. Never null. */
PARAMD_PUBLIC const char* paramd_error(void);

/* The checksum that a checkpoint's manifest has of each of its files. */
PARAMD_PUBLIC uint32_t paramd_crc32c(const void* bytes, size_t size);

/* Numbers that servers hold for the model, float32 and row-major. */
typedef struct paramd_variable {
  const char* name; /* unique in the model */
  const uint64_t* shape;
  uint32_t rank;
  /* Running statistics and their like: servers subtract the "gradient" as it
   * is, no optimizer touches it. */
  int untrained;
  /* What it begins with: the chief's counts. Null in all variables: zeros. */
  const float* initial;
} paramd_variable;

typedef struct paramd_worker_options {
  /* sizeof(paramd_worker_options). What an older header lacks is zero. */
  size_t size;
  /* The job file's content; or null, and its path. With both the path is what
   * errors call it. */
  const char* job;
  const char* job_path;
  /* Settings that beat it: key 0, value 0, key 1, value 1, ... */
  const char* const* settings;
  size_t setting_count;
  const paramd_variable* variables;
  size_t variable_count;
  /* 0, where all that the job wants is trained already (paramd_saved_find): as
   * many as the run had. The worker then only tells the others. */
  uint64_t training_examples;
  /* 0: nothing is evaluated. */
  uint64_t test_examples;
  /* As the flags of `paramd run`. */
  int insecure;
  const char* tls_dir; /* or null */
  /* By variable, or null. Not 0: of this one, which has two dimensions of which
   * the second is at most 262144, only those rows travel that a batch reads.
   * The worker asks for them (PARAMD_FIND_ROWS), weights and gradients are of
   * them (paramd_worker_rows), and other rows stay as they are. */
  const int* sparse;
  /* By variable, or null. What the program computes with where that is not
   * float32, "bfloat16" for instance, else null or "": servers hold float32,
   * but a worker whose types are not the chief's is refused by name. */
  const char* const* compute_dtypes;
  /* By variable two, one after the other, or null. Not null: memory of the
   * variable's size, in which the weights of a step may lie, by turns, so that
   * a program that computes there need not copy them; paramd_work.weights says
   * where they are. No two overlap. Not of a sparse variable. Weights of a step
   * stay as they are until the next one begins; what the program writes there
   * until then is in no later step. Free it when paramd_worker_close has
   * returned. */
  float* const* weights_memory;
} paramd_worker_options;

typedef struct paramd_worker paramd_worker;

/* Returns when this process listens and begins to look for the others.
 * PARAMD_FAILED_PRECONDITION if the cluster's servers have ended with a job
 * that finished in this process: the next one needs a process and servers of
 * its own. */
PARAMD_PUBLIC int paramd_worker_start(const paramd_worker_options* options,
                                      paramd_worker** worker);

typedef enum paramd_work_kind {
  PARAMD_END = 0, /* The job has finished. */
  PARAMD_STEP = 1,
  PARAMD_EVALUATE = 2,
  /* Only with sparse variables: which of their rows will a step, or an
   * evaluation (examples are of the test data then), on these examples read?
   * There are no weights; the answer is paramd_worker_found_rows for each
   * sparse variable, and paramd_worker_finish with any result. */
  PARAMD_FIND_ROWS = 3,
  PARAMD_FIND_TEST_ROWS = 4
} paramd_work_kind;

/* What the program is to compute. All that it points to is the worker's, and is
 * there until the work is finished. */
typedef struct paramd_work {
  int kind;       /* paramd_work_kind */
  uint64_t epoch; /* from 1 */
  /* Numbers of examples in [0, training_examples), or test_examples. */
  const int64_t* indices;
  uint64_t index_count;
  /* By variable. */
  const float* const* weights;
  /* Of PARAMD_STEP: where the derivative of (the sum of the examples' losses /
   * divisor) goes, by variable. */
  float* const* gradients;
  double divisor;
} paramd_work;

/* Waits for the next work. PARAMD_DEADLINE_EXCEEDED: there is none yet. */
PARAMD_PUBLIC int paramd_worker_next(paramd_worker* worker, double seconds,
                                     paramd_work* work);

/* Of PARAMD_FIND_ROWS and PARAMD_FIND_TEST_ROWS: these rows of the sparse
 * variable are read, in whatever order, as often as it likes.
 * PARAMD_INVALID_ARGUMENT if it is not sparse or has not got them. */
PARAMD_PUBLIC int paramd_worker_found_rows(paramd_worker* worker,
                                           size_t variable, const int64_t* rows,
                                           uint64_t count);

/* Of PARAMD_STEP and PARAMD_EVALUATE: which rows of the sparse variable its
 * weights and gradients are, ascending, one after the other. A count of 0 for
 * another variable. Good until the work is finished. */
PARAMD_PUBLIC int paramd_worker_rows(paramd_worker* worker, size_t variable,
                                     const uint64_t** rows, uint64_t* count);

/* The examples of a batch that this worker will likely be given soon, each said
 * once: for reading ahead. A count of 0: none is known now. Good until the next
 * call. */
PARAMD_PUBLIC int paramd_worker_upcoming(paramd_worker* worker,
                                         const int64_t** indices,
                                         uint64_t* count);

/* The gradient of this variable is final: it is not written any more, and may
 * leave while others are computed. May be left out. In a model of less than 1
 * MiB nothing leaves before it is finished. PARAMD_INVALID_ARGUMENT if it is
 * not finite and nothing of the batch has left: the work is still held, as if
 * nothing of it had been computed. PARAMD_ABORTED if something has left: this
 * batch can't be finished, and paramd_worker_close hands its examples out
 * again. */
PARAMD_PUBLIC int paramd_worker_gradient_ready(paramd_worker* worker,
                                               size_t variable);

/* The gradients of the variables first, first + 1, ... lie at these addresses
 * and not in the work's `gradients`; null: this one is written there. Before
 * paramd_worker_gradient_ready of them, and before paramd_worker_finish. They
 * stay as they are until paramd_worker_returned has said the number, which is
 * of all of this call, or paramd_worker_close has returned; where nothing is
 * lent it is said at once. PARAMD_INVALID_ARGUMENT if that number was given
 * before, others since, and it has not been said. Again, also null: in place of
 * those before, which come back and are not ready any more; PARAMD_ABORTED, as
 * above, if one has left. */
PARAMD_PUBLIC int paramd_worker_lend_gradients(paramd_worker* worker,
                                               size_t first, size_t count,
                                               const float* const* gradients,
                                               uint64_t number);

/* Of PARAMD_STEP: this batch has no gradient of the variable, which stays as it
 * is, as do its momenta, its moments and the steps that its optimizer counts;
 * one of zeros would move them. So two models of one job are stepped in turn.
 * Before any gradient is ready; until one of it is lent, or until
 * paramd_worker_recompute. PARAMD_INVALID_ARGUMENT if it is untrained or
 * sparse, PARAMD_ABORTED, as above, if gradients have left,
 * PARAMD_UNIMPLEMENTED where they are added up or clipped before they leave
 * (accumulate, push_every, replicas, optimizer.clip_global_norm, the mirrored
 * strategies). */
PARAMD_PUBLIC int paramd_worker_leave_untouched(paramd_worker* worker,
                                                size_t variable);

/* Numbers of gradients that were lent and that nobody reads any more, each said
 * once. Good until the next call. */
PARAMD_PUBLIC int paramd_worker_returned(paramd_worker* worker,
                                         const uint64_t** numbers,
                                         uint64_t* count);

/* Before the gradients of the work that is held are written anew, after an
 * error of the program's own, or set to zeros to leave the batch out.
 * PARAMD_ABORTED as above if some of them have left. */
PARAMD_PUBLIC int paramd_worker_recompute(paramd_worker* worker);

typedef struct paramd_result {
  double loss_sum;   /* of the examples' losses */
  uint64_t examples; /* 0: the batch is left out, and changes nothing */
  /* Of models whose labels are classes: how many were met, of how many. */
  uint64_t correct;
  uint64_t labels;
} paramd_result;

/* The work is done: its gradients are pushed. If the loss or a gradient is not
 * finite, PARAMD_INVALID_ARGUMENT or PARAMD_ABORTED as above. */
PARAMD_PUBLIC int paramd_worker_finish(paramd_worker* worker,
                                       const paramd_result* result);

/* Changes a setting of the job while it runs: "learning_rate_scale", which
 * every learning rate is multiplied by from then on, to a number such as "0.1".
 * Returns when all servers have it; gradients that were finished before may be
 * applied with either. A run that goes on keeps it. Nothing once the job is
 * over. PARAMD_FAILED_PRECONDITION in a worker that is not the chief. */
PARAMD_PUBLIC int paramd_worker_set(paramd_worker* worker, const char* key,
                                    const char* value);

typedef struct paramd_epoch {
  uint64_t epoch; /* from 1 */
  uint64_t examples;
  double loss; /* the mean over them, each on the weights it was trained on */
} paramd_epoch;

/* Once the job has finished: what all workers were trained on, by epoch, the
 * newest thousand, to the next call on the worker. None before, and of a run
 * that had finished before it was started again. */
PARAMD_PUBLIC int paramd_worker_training(paramd_worker* worker,
                                         const paramd_epoch** epochs,
                                         size_t* count);

/* Leaves the job and frees the worker; work that is held is dropped, and its
 * examples are handed out again. PARAMD_OK if the job had finished,
 * PARAMD_CANCELLED if not. Null is left alone. */
PARAMD_PUBLIC int paramd_worker_close(paramd_worker* worker);

/* What the newest checkpoint of a run has. */
typedef struct paramd_saved {
  const char* checkpoint; /* its path */
  /* The epoch that the job goes on in, from 1; after the last one: one more.
   */
  uint64_t epoch;
  /* Not 0: all that the job wants is trained, and nothing more will be. */
  int is_over;
  const float* const* weights; /* by variable */
} paramd_saved;

/* What the run has that a worker with these options would go on with, before it
 * is started; the examples do not matter. A program whose model takes these
 * weights and whose loop begins at this epoch goes on as if it had never
 * stopped. PARAMD_NOT_FOUND if this process finds none. */
PARAMD_PUBLIC int paramd_saved_find(const paramd_worker_options* options,
                                    const paramd_saved** saved);

/* Of this worker's run. After PARAMD_END: the weights that the job ended with;
 * those of the last step were before its gradients, and others came after it.
 * PARAMD_NOT_FOUND if this process finds none: one that is not the chief may
 * have none of the run's directories. */
PARAMD_PUBLIC int paramd_worker_saved(paramd_worker* worker,
                                      const paramd_saved** saved);

/* Where this process keeps the run: as the job says, or, where all of it is in
 * this process, a new directory below runs/; "" if it keeps none. As long as
 * the worker. */
PARAMD_PUBLIC const char* paramd_worker_run_dir(paramd_worker* worker);

/* Null is left alone. */
PARAMD_PUBLIC void paramd_saved_free(const paramd_saved* saved);

/* What the servers of a running job hold, for a program outside of it. */
typedef struct paramd_pulled {
  const char* name;
  const uint64_t* shape;
  uint32_t rank;
  const float* values; /* row-major */
} paramd_pulled;

typedef struct paramd_weights {
  const paramd_pulled* variables; /* in the order in which they were named */
  size_t count;
  /* Everything contains so many pushes at least and at most. In sync mode they
   * are equal. */
  uint64_t least_step;
  uint64_t most_step;
} paramd_weights;

/* Pulls these variables, or all of them if name_count is 0, from the servers of
 * the job of which a process listens at address, "host:port". Nobody waits for
 * it; training goes on meanwhile. tls_dir is null, or where an operator's
 * certificate lies. Needs no worker, and may be called by several threads.
 * PARAMD_NOT_FOUND names a variable that the job does not have;
 * PARAMD_UNAVAILABLE if nobody answers, or not within so many seconds;
 * PARAMD_CANCELLED if the job has ended. */
PARAMD_PUBLIC int paramd_pull(const char* address, const char* tls_dir,
                              const char* const* names, size_t name_count,
                              double seconds, const paramd_weights** weights);

/* Null is left alone. */
PARAMD_PUBLIC void paramd_weights_free(const paramd_weights* weights);

/* A model in stages, and a batch in micro-batches, both counted from 0: what a
 * program computes when. */
typedef enum paramd_pass_kind {
  PARAMD_FORWARD = 1,
  /* The gradients of the stage's input and of its variables; ... */
  PARAMD_BACKWARD = 2,
  /* ... or each by itself, of the schedule zero_bubble. Who can't tell them
   * apart computes both in the first. */
  PARAMD_BACKWARD_INPUT = 3,
  PARAMD_BACKWARD_VARIABLES = 4
} paramd_pass_kind;

typedef struct paramd_pass {
  int kind; /* paramd_pass_kind */
  uint32_t stage;
  uint32_t micro_batch;
  uint32_t device; /* stage modulo the number of devices */
} paramd_pass;

typedef struct paramd_schedule {
  /* One order for a thread that does all: each comes after what it needs, those
   * of a device in the device's order, and those of a stage in the order of
   * micro-batches. So a sum of gradients that is taken in this order has the
   * same bits whatever the schedule. */
  const paramd_pass* passes;
  size_t count;
  /* By stage: of how many micro-batches at most what a forward pass keeps is
   * kept at once. */
  const uint32_t* kept;
} paramd_schedule;

/* The schedule 1f1b, gpipe, interleaved, naive or zero_bubble. A device has one
 * stage, or of interleaved so many, at least 2. PARAMD_INVALID_ARGUMENT for
 * another name, for numbers that do not fit, and above 1048576 passes. Needs no
 * worker. */
PARAMD_PUBLIC int paramd_schedule_make(const char* name, uint32_t stages,
                                       uint32_t stages_per_device,
                                       uint32_t micro_batches,
                                       const paramd_schedule** schedule);

/* Null is left alone. */
PARAMD_PUBLIC void paramd_schedule_free(const paramd_schedule* schedule);

#ifdef __cplusplus
}
#endif

#endif /* PARAMD_PROGRAM_PARAMD_H_ */
