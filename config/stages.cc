#include "config/stages.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "config/json_value.h"
#include "config/nearest_name.h"
#include "config/overlay.h"
#include "config/setting_value.h"

namespace paramd {
namespace {

constexpr absl::string_view kReference = "stage:";

std::string PathOf(int number) { return absl::StrCat("stages[", number, "]"); }

// -1: there is none.
int FindStage(const v1::JobConfig& job, absl::string_view name) {
  for (int i = 0; i < job.stages_size(); ++i) {
    if (job.stages(i).name() == name) return i;
  }
  return -1;
}

// What is wrong with a stage's number `number` taking weights from `name`;
// empty if nothing is.
std::string WrongSource(const v1::JobConfig& job, int number,
                        absl::string_view name) {
  const int found = FindStage(job, name);
  const std::string quoted = absl::StrCat("'", Excerpt(name), "'");
  if (found == number) {
    return absl::StrCat(quoted, " is the stage itself; name an earlier one");
  }
  if (found > number) {
    return absl::StrCat(quoted, " is a later stage; put it before this one");
  }
  if (found < 0) {
    std::vector<std::string> names;
    for (int i = 0; i < number; ++i) names.push_back(job.stages(i).name());
    return names.empty() ? absl::StrCat(
                               "there is no stage before this one, so none of "
                               "the name ",
                               quoted)
                         : absl::StrCat("there is no earlier stage ", quoted,
                                        NearestNameHint(name, names));
  }
  const StageKind kind = KindOf(job.stages(found));
  if (kind != StageKind::kExport && kind != StageKind::kLabel) return "";
  return absl::StrCat(quoted,
                      kind == StageKind::kExport
                          ? " writes files for other programs"
                          : " writes labels",
                      "; name the stage that it is from, '",
                      job.stages(found).from().stage(), "'");
}

// The same of its learning from `name`: there labels teach too.
std::string WrongTeacher(const v1::JobConfig& job, int number,
                         absl::string_view name) {
  const int found = FindStage(job, name);
  const bool labels = found >= 0 && found < number &&
                      KindOf(job.stages(found)) == StageKind::kLabel;
  return labels ? "" : WrongSource(job, number, name);
}

using UseFile =
    absl::FunctionRef<void(const std::string& path, std::string* file)>;

void ForEachFile(const std::string& path,
                 google::protobuf::RepeatedPtrField<v1::InputStage>* stages,
                 UseFile use) {
  for (int i = 0; i < stages->size(); ++i) {
    v1::InputStage& stage = (*stages)[i];
    if (!stage.has_relabel()) continue;
    use(absl::StrCat(path, ".stages[", i, "].relabel.file"),
        stage.mutable_relabel()->mutable_file());
  }
}

void ForEachFile(const std::string& path, v1::InputSource* source,
                 UseFile use) {
  ForEachFile(path, source->mutable_stages(), use);
  const auto of_each = [&](absl::string_view kind, auto* sources) {
    for (int i = 0; i < sources->size(); ++i) {
      ForEachFile(absl::StrCat(path, ".", kind, ".sources[", i, "]"),
                  &(*sources)[i], use);
    }
  };
  if (source->has_sample_from()) {
    of_each("sample_from", source->mutable_sample_from()->mutable_sources());
  }
  if (source->has_zip()) {
    of_each("zip", source->mutable_zip()->mutable_sources());
  }
}

// Of each stage `relabel`, with the setting's path.
void ForEachFile(v1::InputConfig* input, UseFile use) {
  ForEachFile("input", input->mutable_stages(), use);
  if (input->has_train()) {
    ForEachFile("input.train", input->mutable_train(), use);
  }
  if (input->has_test()) ForEachFile("input.test", input->mutable_test(), use);
}

// What is wrong with a stage's number `number` reading the labels of `name`, or
// with -1 the job doing so; empty if nothing is.
std::string WrongLabels(const v1::JobConfig& job, int number,
                        absl::string_view name) {
  if (number < 0) {
    return absl::StrCat("names the stage '", Excerpt(name),
                        "', and the job has no stages; name a file");
  }
  const int found = FindStage(job, name);
  if (found >= 0 && found < number &&
      KindOf(job.stages(found)) == StageKind::kLabel) {
    return "";
  }
  std::vector<std::string> names;
  for (int i = 0; i < number; ++i) {
    if (KindOf(job.stages(i)) == StageKind::kLabel) {
      names.push_back(job.stages(i).name());
    }
  }
  return absl::StrCat("there is no earlier stage '", Excerpt(name),
                      "' that labels",
                      names.empty() ? "" : NearestNameHint(name, names));
}

// Adds what the stages of one job say wrongly, one at a time.
class StageCheck {
 public:
  StageCheck(const v1::JobConfig& job, const SettingReader& reader,
             Mistakes* mistakes)
      : job_(job), reader_(reader), mistakes_(*mistakes) {}

  void Check(int number) {
    number_ = number;
    CheckName();
    CheckKind();
    if (job_.stages(number).has_from()) CheckFrom();
    CheckKeys();
  }

 private:
  const v1::Stage& stage() const { return job_.stages(number_); }

  void Add(absl::string_view key, absl::string_view sentence) {
    const std::string path = JoinPath(PathOf(number_), key);
    if (mistakes_.HasUnder(path)) return;
    mistakes_.Add(reader_.PlaceOf(path), path, sentence);
  }

  bool IsGiven(absl::string_view key) const {
    return KindOf(reader_.PlaceOf(JoinPath(PathOf(number_), key))) !=
           OriginKind::kDefault;
  }

  void CheckName() {
    const std::string& name = stage().name();
    const bool is_word = absl::c_all_of(name, [](unsigned char c) {
      return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
    });
    if (name.empty() || name.size() > 64 || name[0] == '.' || !is_word) {
      Add("name", absl::StrCat("must be 1 to 64 letters, digits, '.', '_' or "
                               "'-' and not begin with '.'; found \"",
                               Excerpt(name), "\""));
    } else if (name == "stages.json" || name == "stages.svg") {
      Add("name", absl::StrCat("is \"", name,
                               "\", as a file beside the stages is called; "
                               "choose another"));
    } else if (FindStage(job_, name) < number_) {
      Add("name", absl::StrCat("is \"", name,
                               "\", as an earlier stage is "
                               "called; give each a name of its own"));
    }
  }

  void CheckKind() {
    if (stage().has_quantize() && stage().has_export_()) {
      Add("export", "conflicts with 'quantize'; make two stages of it");
    } else if (stage().has_label() &&
               (stage().has_quantize() || stage().has_export_())) {
      Add("label", absl::StrCat("conflicts with '",
                                stage().has_quantize() ? "quantize" : "export",
                                "'; make two stages of it"));
    }
    const StageKind kind = KindOf(stage());
    if (kind != StageKind::kTrain && !stage().has_from()) {
      Add("from",
          absl::StrCat("is missing; name the stage whose checkpoint this one ",
                       StageKindName(kind)));
    }
    if (stage().quantize().mode() != v1::StageQuantize::MODE_STATIC) {
      for (const char* key :
           {"calibrate", "observer", "batches", "activation_bits"}) {
        const std::string path = absl::StrCat("quantize.", key);
        if (stage().has_quantize() && IsGiven(path)) {
          Add(path, "is of mode static, which finds ranges; leave it out");
        }
      }
    }
    const bool is_float =
        stage().quantize().mode() == v1::StageQuantize::MODE_FLOAT16 ||
        stage().quantize().mode() == v1::StageQuantize::MODE_BFLOAT16;
    for (const char* key : {"weight_bits", "per_tensor"}) {
      const std::string path = absl::StrCat("quantize.", key);
      if (is_float && IsGiven(path)) {
        Add(path,
            "is of modes static and dynamic, which have integers; leave "
            "it out");
      }
    }
    const uint32_t bits = stage().quantize().activation_bits();
    // Others are out of range.
    if (bits > 8 && bits < 16) {
      Add("quantize.activation_bits",
          absl::StrCat("is ", bits, "; give 8 or 16"));
    }
    if (stage().has_export_() && IsGiven("export.opset") &&
        stage().export_().format() != v1::StageExport::FORMAT_ONNX) {
      Add("export.opset", "is of format onnx; leave it out");
    }
  }

  bool HasWideIntegers(const std::string& name) const {
    const v1::StageQuantize& quantize =
        job_.stages(FindStage(job_, name)).quantize();
    return quantize.mode() == v1::StageQuantize::MODE_STATIC &&
           quantize.activation_bits() == 16;
  }

  void CheckFrom() {
    const v1::StageStart& from = stage().from();
    const std::string wrong = WrongSource(job_, number_, from.stage());
    const StageKind kind = KindOf(stage());
    if (!wrong.empty()) {
      Add("from.stage", wrong);
    } else if (kind == StageKind::kQuantize &&
               KindOf(job_.stages(FindStage(job_, from.stage()))) ==
                   StageKind::kQuantize) {
      Add("from.stage", absl::StrCat("'", from.stage(),
                                     "' is quantised already; name the stage "
                                     "that trains"));
    } else if (stage().export_().format() == v1::StageExport::FORMAT_ONNX &&
               HasWideIntegers(from.stage())) {
      Add("from.stage", absl::StrCat("'", from.stage(),
                                     "' has integers of 16 bits "
                                     "(quantize.activation_bits), which ONNX "
                                     "has from opset 21 on; export another"));
    }
    for (const char* key : {"variables", "from", "allow_missing"}) {
      const std::string path = absl::StrCat("from.", key);
      if (kind == StageKind::kTrain || !IsGiven(path)) continue;
      Add(path, absl::StrCat("is for a stage that trains; one that ",
                             StageKindName(kind), " takes all"));
    }
    if (stage().settings().has_warm_start()) {
      Add("warm_start", "conflicts with 'from'; keep one");
    }
  }

  // Of the job's keys.
  void CheckKeys() {
    for (const SettingValue& value : ValuesOf(stage().settings())) {
      if (value.is_local) {
        Add(value.path,
            "can't differ between stages; give it once, beside them");
      }
    }
    if (KindOf(stage()) == StageKind::kTrain) return;
    std::vector<const google::protobuf::FieldDescriptor*> given;
    const v1::JobConfig& settings = stage().settings();
    settings.GetReflection()->ListFields(settings, &given);
    for (const google::protobuf::FieldDescriptor* field : given) {
      if (stage().has_quantize() &&
          (field->name() == "input" || field->name() == "batch_per_replica")) {
        continue;
      }
      if (stage().has_label() && field->name() == "input") continue;
      Add(field->name(),
          absl::StrCat("is for a stage that trains, and this "
                       "one ",
                       StageKindName(KindOf(stage())), "; leave it out"));
    }
  }

  const v1::JobConfig& job_;
  const SettingReader& reader_;
  Mistakes& mistakes_;
  int number_ = 0;
};

using UseMistake =
    absl::FunctionRef<void(const std::string& path, absl::string_view)>;

// Adds what a stage that quantises, at this path, says of what its model learns
// in training: to be quantised with weights of so many bits.
void CheckLearned(const std::string& path, const v1::StageQuantize& quantize,
                  uint32_t bits, const SettingReader& reader, UseMistake add) {
  const auto is_given = [&](const char* key) {
    return KindOf(reader.PlaceOf(JoinPath(path, key))) != OriginKind::kDefault;
  };
  if (quantize.mode() != v1::StageQuantize::MODE_STATIC) {
    add(JoinPath(path, "mode"),
        "is not for a model with quantization_aware, which is trained for "
        "static ranges; leave it out");
  }
  for (const char* key :
       {"calibrate", "observer", "batches", "per_tensor", "activation_bits"}) {
    if (!is_given(key)) continue;
    add(JoinPath(path, key),
        "is not for a model with quantization_aware, whose ranges training "
        "learns; leave it out");
  }
  if (is_given("weight_bits") && quantize.weight_bits() != bits) {
    add(JoinPath(path, "weight_bits"),
        absl::StrCat("is ", quantize.weight_bits(),
                     ", and the model is trained for ", bits,
                     " (model.quantization_aware.weight_bits); leave it out"));
  }
}

// The stage and those that it is from, the first one last, so far as one that
// is from another has its model.
std::vector<int> Ancestry(const v1::JobConfig& job, int number) {
  std::vector<int> numbers = {number};
  while (job.stages(numbers.back()).has_from()) {
    numbers.push_back(
        FindStage(job, job.stages(numbers.back()).from().stage()));
  }
  return numbers;
}

void StartFrom(int number, Origins* origins, v1::JobConfig* config) {
  const v1::StageStart from = config->stages(number).from();
  v1::WarmStartConfig* const start = config->mutable_warm_start();
  start->Clear();
  start->set_path(StageReference(from.stage()));
  start->set_variables(from.variables());
  start->set_from(from.from());
  start->set_allow_missing(from.allow_missing());
  const std::string path = absl::StrCat(PathOf(number), ".from");
  constexpr std::pair<absl::string_view, absl::string_view> kKeys[] = {
      {"path", "stage"},
      {"variables", "variables"},
      {"from", "from"},
      {"allow_missing", "allow_missing"}};
  for (const auto& [key, whence] : kKeys) {
    (*origins)[absl::StrCat("warm_start.", key)] =
        OriginOf(*origins, JoinPath(path, whence));
  }
}

std::string Below(absl::string_view directory, absl::string_view name) {
  return absl::StrCat(absl::StripSuffix(directory, "/"), "/", name);
}

// As all processes and stages write it, wherever they run.
std::string FromRoot(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

}  // namespace

StageKind KindOf(const v1::Stage& stage) {
  if (stage.has_quantize()) return StageKind::kQuantize;
  if (stage.has_label()) return StageKind::kLabel;
  return stage.has_export_() ? StageKind::kExport : StageKind::kTrain;
}

absl::string_view StageKindName(StageKind kind) {
  switch (kind) {
    case StageKind::kTrain:
      return "trains";
    case StageKind::kQuantize:
      return "quantises";
    case StageKind::kExport:
      return "exports";
    case StageKind::kLabel:
      return "labels";
  }
  return "";
}

void CheckStages(SettingReader* reader, Mistakes* mistakes,
                 v1::JobConfig* config) {
  for (int i = 0; i < config->stages_size(); ++i) {
    reader->FillDefaultsAt(PathOf(i), config->mutable_stages(i));
  }
  StageCheck check(*config, *reader, mistakes);
  for (int i = 0; i < config->stages_size(); ++i) check.Check(i);
}

void MakeStage(int number, Origins* origins, v1::JobConfig* config) {
  const std::vector<int> numbers = Ancestry(*config, number);
  const v1::Stage stage = config->stages(number);
  const StageKind kind = KindOf(stage);
  // Overlay changes the job that the stages stand in.
  const v1::JobConfig whole = *config;
  for (auto i = numbers.rbegin(); i != numbers.rend(); ++i) {
    if (!whole.stages(*i).settings().has_model()) continue;
    v1::JobConfig model;
    *model.mutable_model() = whole.stages(*i).settings().model();
    Overlay(PathOf(*i), model, origins, config);
  }
  // One that trains nothing has the job of the one that did.
  const auto trained = std::find_if(
      numbers.begin(), numbers.end(),
      [&](int of) { return KindOf(whole.stages(of)) == StageKind::kTrain; });
  for (auto i = std::make_reverse_iterator(std::next(trained));
       i != numbers.rend(); ++i) {
    v1::JobConfig settings = whole.stages(*i).settings();
    // What is labelled is not what the model was trained on.
    if (kind == StageKind::kLabel && *i != number) settings.clear_input();
    Overlay(PathOf(*i), settings, origins, config);
  }
  if (kind == StageKind::kTrain && stage.has_from()) {
    StartFrom(number, origins, config);
  } else if (kind != StageKind::kTrain) {
    config->clear_distill();
    config->clear_warm_start();
  }
}

std::string StageReference(absl::string_view name) {
  return absl::StrCat(kReference, name);
}

void CheckStageJob(const v1::JobConfig& whole, int number,
                   const v1::JobConfig& job, const SettingReader& reader,
                   Mistakes* mistakes) {
  const auto add = [&](const std::string& path, absl::string_view sentence) {
    if (!mistakes->HasUnder(path)) {
      mistakes->Add(reader.PlaceOf(path), path, sentence);
    }
  };
  for (absl::string_view teacher : job.distill().teachers()) {
    if (!absl::ConsumePrefix(&teacher, kReference)) continue;
    if (number < 0) {
      add("distill.teachers",
          absl::StrCat("names the stage '", Excerpt(teacher),
                       "', and the job has no stages; name a directory, or "
                       "a file of labels"));
      continue;
    }
    const std::string wrong = WrongTeacher(whole, number, teacher);
    if (!wrong.empty()) add("distill.teachers", wrong);
  }
  v1::InputConfig input = job.input();
  ForEachFile(&input, [&](const std::string& path, std::string* file) {
    absl::string_view name = *file;
    if (!absl::ConsumePrefix(&name, kReference)) return;
    const std::string wrong = WrongLabels(whole, number, name);
    if (!wrong.empty()) add(path, wrong);
  });
  if (number < 0) return;
  const v1::Stage& stage = whole.stages(number);
  if (stage.has_quantize() && job.model().has_quantization_aware()) {
    CheckLearned(JoinPath(PathOf(number), "quantize"), stage.quantize(),
                 job.model().quantization_aware().weight_bits(), reader, add);
  }
  if (job.model().custom()) {
    add("stages",
        "are for models in the job file; with model.custom a program brings "
        "the model, so start one job after the other");
  }
  if (!job.backup_and_restore().directory().empty()) {
    add("backup_and_restore",
        "is not for a job with stages, which goes on with the stage that was "
        "under way from its checkpoints; leave it out");
  }
  if (job.linger_when_finished()) {
    add("linger_when_finished",
        "is not for a job with stages, whose processes end with the last one; "
        "leave it out");
  }
}

std::string LabelsIn(absl::string_view run_dir) {
  return Below(run_dir, "labels.records");
}

std::vector<std::string> LabelStagesOf(v1::InputConfig as_stage) {
  std::vector<std::string> names;
  ForEachFile(&as_stage, [&](const std::string&, std::string* file) {
    absl::string_view name = *file;
    if (absl::ConsumePrefix(&name, kReference)) names.emplace_back(name);
  });
  return names;
}

void ForgetLabelsOfStages(v1::InputConfig as_stage, v1::InputConfig* input) {
  std::vector<bool> is_of_stage;
  ForEachFile(&as_stage, [&](const std::string&, std::string* file) {
    is_of_stage.push_back(absl::StartsWith(*file, kReference));
  });
  size_t number = 0;
  ForEachFile(input, [&](const std::string&, std::string* file) {
    if (is_of_stage[number++]) file->clear();
  });
}

void ForgetLabels(v1::InputConfig* input) {
  ForEachFile(input,
              [](const std::string&, std::string* file) { file->clear(); });
}

void SettleStage(const v1::JobConfig& whole, absl::string_view name,
                 v1::JobConfig* job) {
  const std::string run_dir =
      job->run_dir().empty() ? "" : FromRoot(job->run_dir());
  const std::string checkpoints = job->checkpoint().directory();
  const auto weights_of = [&](absl::string_view stage) {
    return !checkpoints.empty() ? Below(checkpoints, stage)
           : run_dir.empty()
               ? StageReference(stage)
               : absl::StrCat(Below(run_dir, stage), "/checkpoints");
  };
  const auto settle = [&](std::string* path) {
    absl::string_view stage = *path;
    if (absl::ConsumePrefix(&stage, kReference)) *path = weights_of(stage);
  };
  const auto settle_labels = [&](std::string* path) {
    absl::string_view stage = *path;
    if (run_dir.empty() || !absl::ConsumePrefix(&stage, kReference)) return;
    *path = LabelsIn(Below(run_dir, stage));
  };
  if (job->warm_start().has_path()) {
    settle(job->mutable_warm_start()->mutable_path());
  }
  if (job->has_input()) {
    ForEachFile(
        job->mutable_input(),
        [&](const std::string&, std::string* file) { settle_labels(file); });
  }
  if (job->has_distill()) {
    for (std::string& teacher : *job->mutable_distill()->mutable_teachers()) {
      absl::string_view stage = teacher;
      const int found = absl::ConsumePrefix(&stage, kReference)
                            ? FindStage(whole, stage)
                            : -1;
      const bool labels =
          found >= 0 && KindOf(whole.stages(found)) == StageKind::kLabel;
      if (labels) {
        settle_labels(&teacher);
      } else {
        settle(&teacher);
      }
    }
  }
  if (!run_dir.empty()) job->set_run_dir(Below(run_dir, name));
  if (!checkpoints.empty()) {
    job->mutable_checkpoint()->set_directory(Below(checkpoints, name));
  }
  if (!job->summary().directory().empty()) {
    job->mutable_summary()->set_directory(
        Below(std::string(job->summary().directory()), name));
  }
}

}  // namespace paramd
