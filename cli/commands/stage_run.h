#ifndef PARAMD_CLI_COMMANDS_STAGE_RUN_H_
#define PARAMD_CLI_COMMANDS_STAGE_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "cli/commands/command.h"
#include "cli/stages/stage_plan.h"
#include "config/job_config.h"
#include "process/job_flags.h"

namespace paramd {

// A job with stages in its run's directory, of which each stage has a folder.
// It knows which stage is next, makes what a stage makes without training, and
// records what a stage has come to. How a stage is trained is its caller's.
//
// Not thread-safe. Keeps no state but what lies in the directory.
class StageRun {
 public:
  // None if the job that the flags name has no stages, or one of them is named,
  // or there is no job file. INVALID_ARGUMENT naming all mistakes.
  static absl::StatusOr<std::vector<LoadedJob>> StagesOf(const JobFlags& flags);

  // Where a new run of the job writes, or with `resume` the one to go on with:
  // what the job says, or the next free directory below runs/, or the newest
  // there. NOT_FOUND if there is none, FAILED_PRECONDITION if a new one's holds
  // something.
  static absl::StatusOr<std::string> ChooseDirectory(const v1::JobConfig& job,
                                                     bool resume);

  // Of a job that has some. `run_dir`: the whole run's. Makes nothing.
  static absl::StatusOr<StageRun> Create(const JobFlags& flags,
                                         const std::string& run_dir);

  const std::string& run_dir() const { return run_dir_; }
  const LoadedJob& stage(int number) const { return stages_[number]; }
  // "stage student (2 of 4)"
  std::string Title(int number) const;
  // The flags that name the stage, in this run.
  JobFlags FlagsOf(int number) const;

  // For who writes: makes the directory and its page. The error of
  // CheckStagesFit, whatever FindNext refuses, and INVALID_ARGUMENT if the
  // labels of a finished stage are not there, or are of another model than the
  // stage that it is from.
  absl::Status Begin() const;

  absl::StatusOr<NextStage> Next() const;

  // What Next calls kFinish. The process's exit code; what is wrong was said.
  int Finish(int number, const Invocation& invocation) const;

  // A row for each stage that is finished, and where the page is.
  std::string Describe() const;

 private:
  StageRun(JobFlags flags, std::string run_dir, std::vector<LoadedJob> stages);

  std::vector<StageRecord> Records() const;
  absl::StatusOr<std::string> SourceOf(int number) const;
  int Quantize(int number, const Invocation& invocation) const;
  int Export(int number, const Invocation& invocation,
             std::string* target) const;
  int Label(int number, const Invocation& invocation,
            std::string* target) const;
  absl::Status CheckLabels(int number) const;
  absl::Status Record(int number, const std::string& target,
                      const ModelFactory& models) const;

  JobFlags flags_;
  std::string run_dir_;
  std::vector<LoadedJob> stages_;
};

// InvalidArgument, a sentence, if the job is a stage that trains nothing, or
// whose run's directory is not given: it can't be run by itself.
absl::Status CheckRunsByItself(const LoadedJob& job);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_STAGE_RUN_H_
