#ifndef PARAMD_CONFIG_STAGES_H_
#define PARAMD_CONFIG_STAGES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "config/mistakes.h"
#include "config/setting_reader.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// Stages of a job, each of which is made a job of its own: the one around them,
// with what the stage gives in place of its keys.

enum class StageKind { kTrain, kQuantize, kExport, kLabel };
StageKind KindOf(const v1::Stage& stage);
// "trains", "quantises", "exports", "labels".
absl::string_view StageKindName(StageKind kind);

// Fills in the defaults of what is a stage's alone, and adds what stages say
// wrongly: names that are missing or there twice, a `from` that names no
// earlier stage, keys that do not go together.
void CheckStages(SettingReader* reader, Mistakes* mistakes,
                 v1::JobConfig* config);

// Makes of a job the one of its stage `number`; the stages stay in it. Its
// model is that of the stage that it is from, but for the keys that it gives
// itself; one that trains nothing has the whole job of that, but one that
// labels the input of the job around the stages, too. What has its weights from
// an earlier stage says so in warm_start, with the path StageReference has.
// REQUIRES: CheckStages found nothing.
void MakeStage(int number, Origins* origins, v1::JobConfig* config);

// "stage:teacher": where a setting names an earlier stage in place of a path.
std::string StageReference(absl::string_view name);

// Adds what the job of a stage says wrongly about other stages and about what
// jobs with stages have not. `whole`: the job with its stages. Where `number`
// is -1, `job` is one without stages.
void CheckStageJob(const v1::JobConfig& whole, int number,
                   const v1::JobConfig& job, const SettingReader& reader,
                   Mistakes* mistakes);

// Where a stage that labels, whose run's directory this is, writes.
std::string LabelsIn(absl::string_view run_dir);

// Names of the stages whose labels `as_stage`, an input as it stands in the
// job, reads.
std::vector<std::string> LabelStagesOf(v1::InputConfig as_stage);

// Leaves out the files of labels that `as_stage`, the input as it stands in the
// job, has from other stages, so that examples look as they will, and these
// need not have ended (RelabelStage::Create).
void ForgetLabelsOfStages(v1::InputConfig as_stage, v1::InputConfig* input);
// Those of all stages and files.
void ForgetLabels(v1::InputConfig* input);

// Where the job of the stage reads and writes: each stage has a directory of
// its name in the run's, and in those that the job names besides. Replaces
// references to stages. What they need of a run_dir that is not given stays.
// `whole`: the job with its stages.
void SettleStage(const v1::JobConfig& whole, absl::string_view name,
                 v1::JobConfig* job);

}  // namespace paramd

#endif  // PARAMD_CONFIG_STAGES_H_
