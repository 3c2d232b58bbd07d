#ifndef PARAMD_CONFIG_JOB_CONFIG_H_
#define PARAMD_CONFIG_JOB_CONFIG_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "config/environment.h"
#include "config/setting_reader.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// From where a job's settings come: a flag beats the environment, that beats
// the file, that beats the default.
struct JobSources {
  // Path of the job file. Without one everything comes from the others.
  absl::optional<std::string> file;
  // Stands for the content of `file`, which is not opened then.
  absl::optional<std::string> text;
  // All variables of the process; those that begin with PARAMD_ count.
  Variables environment;
  // PARAMD_ variables that mean something to the caller but are no setting,
  // besides those of ClusterSources.
  std::vector<std::string> other_variables;
  // (key path, value) as given by flags; of equal paths the last holds.
  std::vector<std::pair<std::string, std::string>> settings;
  // Of a job with stages: which one is meant.
  absl::optional<std::string> stage;
  // Whether this process reads the input, so that its files must be there.
  bool check_input_files = false;
};

// A job that passed every check.
struct LoadedJob {
  v1::JobConfig config;       // every default filled in
  std::string digest;         // of job_wide_text: 16 hexadecimal digits
  std::string job_wide_text;  // one "path=value" per line; what peers compare
  Origins origins;            // where each value came from
  std::string warning;        // empty, or a sentence to be logged once
  // Of a stage of a job: what it is beside `config`; its name is empty if the
  // job has no stages. And `config` as it stands in the job, with other stages
  // by their names, in place of paths, and the directories of the whole job.
  v1::Stage stage;
  v1::JobConfig as_stage;
};

// Reads, layers and checks the settings; of a job with stages those of one.
// InvalidArgument with all mistakes at once, one per line,
// "file:line: key.path: what to do"; a file that can't be read is one of them,
// and so is a stage that is not named, or not there.
absl::StatusOr<LoadedJob> LoadJob(const JobSources& sources);

// The job of each stage, in order, whatever `sources.stage` is; none if the job
// has no stages. InvalidArgument with the mistakes of all of them.
absl::StatusOr<std::vector<LoadedJob>> LoadStages(const JobSources& sources);

// From where a run goes on when it is started again: its backup's directory, or
// `run_dir`. There is its configuration log.
std::string StateDirectory(const v1::JobConfig& config);

// Sets where a run writes: `run_dir`, and its checkpoints below it unless the
// job names another directory for them.
void SetRunDirectory(absl::string_view run_dir, v1::JobConfig* config);

// The job-wide settings of a config whose defaults are filled in, in the order
// of config.proto. Equal for equal jobs, however they were written.
std::string JobWideText(const v1::JobConfig& config);

// 64-bit FNV-1a of `text` as 16 hexadecimal digits: tells jobs apart that
// differ by accident, not by malice.
std::string Digest(absl::string_view text);

}  // namespace paramd

#endif  // PARAMD_CONFIG_JOB_CONFIG_H_
