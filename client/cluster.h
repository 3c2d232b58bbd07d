// A running paramd job, for a program outside of it.
//
//   paramd::Cluster cluster({.address = "10.0.0.7:2222"});
//   const auto weights = cluster.Pull({"dense/kernel"});
//   if (!weights.ok()) return Fail(weights.message);
//   Use(weights.value.tensors[0].values);
//
// Needs C++17 and the standard library: nothing of gRPC or protobuf is in here.
// Link with `pkg-config --libs paramd_client`, or with --static.
#ifndef PARAMD_CLIENT_CLUSTER_H_
#define PARAMD_CLIENT_CLUSTER_H_

#include <cstdint>
#include <future>
#include <string>
#include <utility>
#include <vector>

// Grows when something is added. What is in here stays as it is until the
// library's major version, the number in libparamd_client.so.N, grows too.
#define PARAMD_CLIENT_VERSION 1

namespace paramd {

// The servers and workers of one job. Reading changes nothing there, and nobody
// waits for it; Set and Checkpoint are an operator's.
//
// There is no push: each gradient counts exactly once because a worker's
// session numbers it, and whoever is outside has no session. A program that
// pushes is a worker: program/program_worker.h, program/paramd.h.
//
// Thread-safe: each call makes connections of its own. It starts threads: fork
// before the first call, not after.
class __attribute__((visibility("default"))) Cluster {
 public:
  struct Options {
    std::string address = {};  // "host:port" of any process of the job.
    // Where processes speak TLS: an operator's certificate, see `paramd tls
    // init`.
    std::string tls_dir = {};
    // The run's directory, on the chief's machine: Set and Checkpoint go over
    // the socket there. Empty: over TLS.
    std::string run_dir = {};
    double timeout_seconds = 60;  // Of one call, with all that it does again.
  };

  // How a call ended. The numbers are gRPC's.
  enum class Code {
    kOk = 0,
    kCancelled = 1,  // The job has ended.
    kUnknown = 2,
    kInvalidArgument = 3,  // What was asked for makes no sense.
    kDeadlineExceeded = 4,
    kNotFound = 5,  // There is no such variable, or nobody to ask.
    kPermissionDenied = 7,
    kFailedPrecondition = 9,  // Not in this job, or not now.
    kInternal = 13,
    kUnavailable = 14,  // Nobody answers, or not in time.
  };
  template <typename T>
  struct Result {
    Code code = Code::kOk;
    std::string message;  // A sentence that says what to do; empty if ok().
    T value = {};         // If ok().

    bool ok() const { return code == Code::kOk; }
  };

  // What the servers hold, float32.
  struct Variable {
    std::string name;
    std::vector<uint64_t> shape;  // Empty: one number.
    bool trainable = true;        // Running statistics are not.
  };
  struct Tensor {
    Variable variable;
    std::vector<float> values;  // Row-major.
  };
  // Training goes on while they are read: a block, of up to 262,144 elements in
  // a row, is as one push left it, and others may contain other pushes.
  struct Weights {
    std::vector<Tensor> tensors;
    uint64_t least_step = 0;  // So many pushes everything contains,
    // And so many at most. Equal in sync mode, unless steps are faster than a
    // pull.
    uint64_t most_step = 0;
  };
  struct Member {
    std::string task;     // "ps-0", "worker-3"
    std::string state;    // "AWAITED", "STARTING", "ALIVE", "LOST"
    std::string address;  // Empty: it is not known.
    uint64_t pushes = 0;  // Of a worker's present session.
  };
  struct Status {
    std::string job;
    std::string state;  // "STARTING", "RUNNING", "FINISHING", "FINISHED"
    uint64_t global_step = 0;
    double epochs_done = 0;
    uint32_t epochs = 0;
    std::string staleness;        // "async", "8", "sync"
    std::string waiting_for;      // Whom everything waits for; empty: nobody.
    std::string checkpoint_path;  // The newest one; empty: none yet.
    uint64_t checkpoint_step = 0;
    std::vector<Member> members;
  };
  struct Checkpointed {
    std::string path;
    uint64_t step = 0;
  };
  struct Nothing {};

  explicit Cluster(Options options) : options_(std::move(options)) {}

  // Each blocks, and tries again what may pass, a server that is being restored
  // for example. kUnavailable, saying whom and why, if nobody answers at the
  // address, at once, or if it has not passed in time; kCancelled if the job
  // has ended; kInvalidArgument if tls_dir has no certificate that fits.

  // All variables of the job, in its order.
  Result<std::vector<Variable>> Variables() const;
  // Those with these names, in this order; all if there are none, but
  // embeddings with a capacity. Also kNotFound, naming one that the job does
  // not have, and kInvalidArgument for one that is named twice, or is such an
  // embedding.
  Result<Weights> Pull(const std::vector<std::string>& names = {}) const;
  // As the chief sees it.
  Result<Status> GetStatus() const;
  // Changes a setting: "staleness" to "8", "async" or "sync",
  // "learning_rate_scale" to "0.1". Also kInvalidArgument if there is no such
  // setting or value; kFailedPrecondition without run_dir and tls_dir.
  Result<Nothing> Set(const std::string& key, const std::string& value) const;
  // Has a checkpoint written that contains all that was acknowledged before,
  // and returns when it is committed. Also kFailedPrecondition as Set;
  // kUnavailable if storage fails, or it is not there in time: then it is
  // written all the same.
  Result<Checkpointed> Checkpoint() const;

  // The same on a thread of their own. The future's destructor waits for it.
  std::future<Result<std::vector<Variable>>> VariablesAsync() const;
  std::future<Result<Weights>> PullAsync(
      std::vector<std::string> names = {}) const;
  std::future<Result<Status>> GetStatusAsync() const;
  std::future<Result<Nothing>> SetAsync(std::string key,
                                        std::string value) const;
  std::future<Result<Checkpointed>> CheckpointAsync() const;

  // PARAMD_CLIENT_VERSION of the library that is loaded.
  static int LibraryVersion();

 private:
  Options options_;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_CLUSTER_H_
