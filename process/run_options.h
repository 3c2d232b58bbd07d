#ifndef PARAMD_PROCESS_RUN_OPTIONS_H_
#define PARAMD_PROCESS_RUN_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "config/cluster_spec.h"
#include "net/certified_name.h"
#include "process/flags.h"
#include "process/process.h"
#include "process/process_flags.h"

namespace paramd {

// What --trace of a command that trains means.
inline constexpr char kTraceFlag[] =
    "at the end, write what each worker did when there, for "
    "https://ui.perfetto.dev or chrome://tracing";

// What `paramd run` is told, and `paramd config check` of it.
struct RunOptions {
  ProcessFlags process;
  bool insecure = false;
  std::string tls_dir;         // Empty: no TLS.
  std::string health_address;  // Empty: no port of its own.
  std::string incarnation;     // As text; empty: one is drawn.
  std::string replaces;        // As text; empty: not known.
  std::string trace_path;      // Of a worker's ChromeTrace; empty: none.
  // Of a program that the worker is in: the examples behind the numbers that it
  // is told (input.train.indices and input.test.indices). 0: there is none.
  uint64_t training_examples = 0;
  uint64_t test_examples = 0;

  // Declares the flags; those of the process after the others. `flags` must
  // not outlive this.
  void AddTo(Flags* flags);
};

// Which part the process has. kInvalidArgument if it is called by what is no
// name of a process.
absl::StatusOr<ProcessRole> RoleIn(const ClusterSpec& cluster,
                                   const v1::JobConfig& job,
                                   const RunOptions& options);

// Whose certificate the process has.
CertifiedName CertifiedNameOf(const ProcessRole& role,
                              const v1::JobConfig& job);

}  // namespace paramd

#endif  // PARAMD_PROCESS_RUN_OPTIONS_H_
