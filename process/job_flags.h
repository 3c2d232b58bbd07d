#ifndef PARAMD_PROCESS_JOB_FLAGS_H_
#define PARAMD_PROCESS_JOB_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "config/job_config.h"
#include "process/flags.h"

namespace paramd {

// How a command line says which job is meant: the job file and settings that
// beat what stands in it.
struct JobFlags {
  std::string job_path;
  // Stands for the content of the job file, which is not opened then. No flag
  // sets it: a program that the worker is in does.
  absl::optional<std::string> job_text;
  std::vector<Flags::Setting> settings;
  // Of a job with stages: which one is meant. Empty: none is named.
  std::string stage;

  // Declares --job, --stage, --set and a flag for each setting. `flags` must
  // not outlive this. Called after the subcommand has declared its own.
  void AddTo(Flags* flags);

  // What these flags and the environment say, not read yet. InvalidArgument
  // without --job.
  absl::StatusOr<JobSources> Sources() const;

  // The job with every default filled in. InvalidArgument naming all mistakes.
  absl::StatusOr<LoadedJob> Load() const;

  // What these flags, or else the environment, say of the setting `key` at the
  // top level, as it stands there; else `otherwise`. For a job that can't be
  // loaded.
  std::string Raw(const std::string& key, absl::string_view otherwise) const;

  // The same again, as arguments for a process that this one starts.
  std::vector<std::string> ToArguments() const;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_JOB_FLAGS_H_
