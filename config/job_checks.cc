#include "config/job_checks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"

#include "config/consistency.h"
#include "config/custom_model.h"
#include "config/election_place.h"
#include "config/growing_input.h"
#include "config/name_pattern.h"
#include "config/optimizer_check.h"
#include "config/setting.h"
#include "config/strategy.h"
#include "config/task_address.h"

namespace paramd {
namespace {

// Whether each of the patterns `from` has one of `to` at its place, with as
// many stars; where `to` is empty, names stay.
bool FitTogether(absl::string_view from, absl::string_view to) {
  const std::vector<absl::string_view> patterns = absl::StrSplit(from, ',');
  const std::vector<absl::string_view> names = absl::StrSplit(to, ',');
  return to.empty() ||
         std::equal(patterns.begin(), patterns.end(), names.begin(),
                    names.end(), [](auto pattern, auto name) {
                      return NamePattern(pattern).stars() ==
                             NamePattern(name).stars();
                    });
}

// Adds what a group of the optimizer says twice: beside the optimizer that it
// names, and of it.
void CheckGroupConstants(const v1::OptimizerConfig& config,
                         const SettingReader& reader, const AddMistake& add) {
  const google::protobuf::Descriptor& keys =
      *v1::OptimizerConfig::Group::descriptor();
  const auto is_given = [&](const std::string& path) {
    return KindOf(reader.PlaceOf(path)) != OriginKind::kDefault;
  };
  for (int g = 0; g < config.groups_size(); ++g) {
    const v1::OptimizerConfig::Group& group = config.groups(g);
    const std::string path = absl::StrCat("optimizer.groups[", g, "]");
    for (int f = 0; f < keys.field_count(); ++f) {
      const google::protobuf::FieldDescriptor& kind = *keys.field(f);
      if (kind.message_type() == nullptr ||
          !group.GetReflection()->HasField(group, &kind)) {
        continue;
      }
      const google::protobuf::Descriptor& own = *kind.message_type();
      for (int c = 0; c < own.field_count(); ++c) {
        const std::string& constant = own.field(c)->name();
        const std::string beside = JoinPath(path, constant);
        const std::string inside =
            JoinPath(JoinPath(path, kind.name()), constant);
        if (keys.FindFieldByName(constant) == nullptr || !is_given(beside) ||
            !is_given(inside)) {
          continue;
        }
        add(inside, absl::StrCat("is given by ", beside, " too; keep one"));
      }
    }
  }
}

// Adds what the settings about staleness say wrongly.
void CheckConsistency(const v1::JobConfig& config, const AddMistake& add) {
  if (config.has_staleness()) {
    const auto consistency = ParseStaleness(config.staleness());
    if (!consistency.ok()) {
      add("staleness",
          absl::StrCat(consistency.status().message(), "; found \"",
                       Excerpt(config.staleness()), "\""));
    }
  }
  const bool sync = config.staleness() == "sync";
  if (config.backup_workers() > 0 && !sync) {
    add("backup_workers", "needs staleness \"sync\"");
  }
  if (config.backup_workers() > 0 && config.max_joined_workers() > 0) {
    add("max_joined_workers",
        "does not go with backup_workers, where servers keep room for the "
        "gradients of the workers that the cluster names; leave one of them "
        "out");
  }
  if (config.push_every() > 1 && sync) {
    add("push_every",
        "makes no sense with staleness \"sync\", where a step is one push of "
        "each worker; use accumulate");
  }
  if (config.scalable() && config.replication() < 2) {
    add("scalable",
        "needs replication 2: what a ps holds goes on in its backup");
  }
  if (config.rebalance() && !config.scalable()) {
    add("rebalance",
        "needs scalable, with which each ps has room for every server");
  }
  CheckOptimizer(config.optimizer(), add);
  for (int p = 0; p < config.optimizer().pruning_size(); ++p) {
    if (sync || !UsesServers(config)) break;
    using Pruning = v1::OptimizerConfig::Pruning;
    const Pruning& pruning = config.optimizer().pruning(p);
    const bool of_channels = pruning.structure() == Pruning::CHANNELS;
    if (!of_channels && pruning.scope() != Pruning::GLOBAL) continue;
    add(absl::StrCat("optimizer.pruning[", p,
                     of_channels ? "].structure" : "].scope"),
        absl::StrCat(of_channels ? "\"channels\"" : "\"global\"",
                     " needs staleness \"sync\", where all servers have the "
                     "weights of one step"));
  }
  if (config.optimizer().sgd().nesterov() &&
      config.optimizer().sgd().momentum() == 0) {
    add("optimizer.sgd.nesterov", "needs momentum");
  }
}

// Adds what the settings about who is the chief say wrongly.
void CheckElection(const v1::JobConfig& config, const AddMistake& add) {
  if (config.chief_election().empty()) {
    if (!config.chief_election_tls_dir().empty()) {
      add("chief_election_tls_dir", "makes no sense without chief_election");
    }
    return;
  }
  const auto place = ParseElectionPlace(config.chief_election());
  if (!place.ok()) add("chief_election", place.status().message());
}

// Adds what the settings about formats of numbers say wrongly.
void CheckFormats(const v1::JobConfig& config, const AddMistake& add) {
  if (config.loss_scale() > 0 &&
      config.compute_format() != v1::JobConfig::COMPUTE_FORMAT_FP16) {
    add("loss_scale",
        "makes sense with compute_format \"fp16\" alone; leave it out");
  }
}

// Adds what does not go with a pipeline whose steps overlap.
void CheckWithoutFlush(const v1::JobConfig& config, const AddMistake& add) {
  const v1::PipelineConfig& pipeline = config.pipeline();
  const bool is_pipedream =
      pipeline.schedule() == v1::PipelineConfig::SCHEDULE_PIPEDREAM;
  if (!is_pipedream &&
      pipeline.schedule() != v1::PipelineConfig::SCHEDULE_2BW) {
    return;
  }
  const auto refuse = [&](absl::string_view why) {
    add("pipeline.schedule",
        absl::StrCat("\"", is_pipedream ? "pipedream" : "2bw",
                     "\" begins a batch before the push of the last one, ", why,
                     "; choose 1f1b"));
  };
  if (!UsesServers(config)) {
    refuse(absl::StrCat("which needs strategy \"parameter_server\"; found \"",
                        StrategyName(config.strategy()), "\""));
  } else if (config.has_staleness() && config.staleness() != "async") {
    refuse(absl::StrCat("which needs staleness \"async\"; found \"",
                        config.staleness(), "\""));
  } else if (ReplicasOf(config) > 1 || config.accumulate() > 1 ||
             config.push_every() > 1) {
    refuse(
        "and has one batch for each push: replicas, accumulate and push_every "
        "must be 1");
  } else if (is_pipedream && pipeline.micro_batches() > 1) {
    refuse(absl::StrCat(
        "where a batch is one micro-batch: leave pipeline.micro_batches out; "
        "found ",
        pipeline.micro_batches()));
  }
}

// Adds what the settings about memory say wrongly.
void CheckMemory(const v1::JobConfig& config, const AddMistake& add) {
  if (config.memory().swap_directory().empty() ||
      config.memory().activation_budget_bytes() > 0) {
    return;
  }
  add("memory.swap_directory",
      "needs memory.activation_budget_bytes, which says how much memory there "
      "is without it");
}

// Adds what the settings about the stages of a model say wrongly.
void CheckPipeline(const v1::JobConfig& config, const AddMistake& add) {
  const v1::PipelineConfig& pipeline = config.pipeline();
  if (!IsPipelined(config)) return;
  if (config.compute_format() == v1::JobConfig::COMPUTE_FORMAT_FP16) {
    add("pipeline",
        "is not for compute_format \"fp16\", whose loss is scaled step by "
        "step; choose bf16");
  }
  const uint32_t of_each = pipeline.stages_per_device();
  const bool interleaves =
      pipeline.schedule() == v1::PipelineConfig::SCHEDULE_INTERLEAVED;
  if (of_each > 1 && !interleaves) {
    add("pipeline.stages_per_device",
        absl::StrCat("needs pipeline.schedule \"interleaved\"; found ",
                     of_each));
  } else if (interleaves && (of_each < 2 || pipeline.stages() % of_each != 0)) {
    add("pipeline.stages_per_device",
        absl::StrCat("must be at least 2 with schedule \"interleaved\", and "
                     "divide pipeline.stages (",
                     pipeline.stages(), "); found ", of_each));
  }
  if (pipeline.schedule() == v1::PipelineConfig::SCHEDULE_ZERO_BUBBLE &&
      config.memory().activation_budget_bytes() > 0) {
    add("memory.activation_budget_bytes",
        "is not for pipeline.schedule \"zero_bubble\", whose gradients that "
        "are "
        "put off are not in it; choose \"1f1b\"");
  }
  CheckWithoutFlush(config, add);
}

// Whether a name that metrics have in theirs is of such characters alone.
bool IsPlainName(absl::string_view name, absl::string_view others) {
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           others.find(c) != others.npos;
  });
}

// Adds what model.slices says wrongly, whatever the input has.
void CheckSlices(const v1::ModelConfig& model, const AddMistake& add) {
  for (int i = 0; i < model.slices_size(); ++i) {
    const std::string& name = model.slices(i);
    if (!name.empty() && IsPlainName(name, "_-./")) continue;
    add(absl::StrCat("model.slices[", i, "]"),
        absl::StrCat("becomes part of the names of metrics (auc/device=2): "
                     "letters, digits, _, -, . and / alone; found \"",
                     Excerpt(name), "\""));
  }
}

// Adds what the settings about outputs say wrongly.
void CheckOutputs(const v1::JobConfig& config, const SettingReader& reader,
                  const AddMistake& add) {
  const auto& outputs = config.model().outputs();
  const std::string& best = config.checkpoint().best_output();
  if (outputs.empty()) {
    if (!best.empty() && !config.model().custom()) {
      add("checkpoint.best_output",
          "is of a model with several outputs (model.outputs); leave it out");
    }
    return;
  }
  const auto leave_out = [&](absl::string_view key) {
    add(absl::StrCat("model.", key),
        "is given by each of model.outputs; leave it out here");
  };
  if (config.model().has_loss()) leave_out("loss");
  for (const absl::string_view key :
       {"label", "label_smoothing", "class_weights", "ignore_label", "metrics",
        "top_k", "group"}) {
    const Place place = reader.PlaceOf(absl::StrCat("model.", key));
    if (KindOf(place) != OriginKind::kDefault) leave_out(key);
  }
  std::vector<std::string> names;
  for (const v1::ModelConfig::Output& output : outputs) {
    const std::string path =
        absl::StrCat("model.outputs[", names.size(), "].name");
    const std::string& name = output.name();
    const bool is_word = IsPlainName(name, "_-.");
    if (!is_word || (name.empty() && output.has_name())) {
      add(path,
          absl::StrCat("names metrics and a column of predictions: letters, "
                       "digits, _, - and . alone; found \"",
                       Excerpt(name), "\""));
    } else if (std::count(names.begin(), names.end(), name) > 0) {
      add(path, absl::StrCat("is \"", name,
                             "\", as another output is called; give each a "
                             "name of its own"));
    }
    names.push_back(name);
  }
  if (!best.empty() && std::count(names.begin(), names.end(), best) == 0) {
    add("checkpoint.best_output",
        absl::StrCat("must be one of model.outputs (",
                     absl::StrJoin(names, ", "), "); found \"", Excerpt(best),
                     "\""));
  }
}

// Adds what does not go with training as a quantised network computes.
void CheckQuantizationAware(const v1::JobConfig& config,
                            const AddMistake& add) {
  if (!config.model().has_quantization_aware()) return;
  if (config.compute_format() > v1::JobConfig::COMPUTE_FORMAT_FP32) {
    add("compute_format",
        "must be \"fp32\" with model.quantization_aware, which rounds to what "
        "integers stand for; leave one of them out");
  }
  const std::string& device = config.device();
  if (absl::StartsWith(device, "cuda") || absl::StartsWith(device, "pjrt:")) {
    add("device",
        absl::StrCat("must be \"cpu\" with model.quantization_aware, which "
                     "rounds on the processor alone; found \"",
                     Excerpt(device), "\""));
  }
}

// Adds what the settings about teachers say wrongly.
void CheckDistill(const v1::JobConfig& config, const AddMistake& add) {
  if (!config.has_distill()) return;
  if (!config.model().outputs().empty()) {
    add("distill",
        "is for a model with one output, which has classes; with model.outputs "
        "leave it out");
  } else if (config.model().has_loss() &&
             config.model().loss() != v1::SOFTMAX_CROSS_ENTROPY) {
    add("distill",
        absl::StrCat(
            "is for the loss softmax_cross_entropy, which has "
            "classes; model.loss is ",
            absl::AsciiStrToLower(v1::Loss_Name(config.model().loss()))));
  }
}

// Adds what does not go with a loss over the examples of a batch.
void CheckInBatch(const v1::JobConfig& config, const AddMistake& add) {
  const v1::ModelConfig& model = config.model();
  if (model.loss() != v1::IN_BATCH_SOFTMAX) {
    constexpr char kLeaveOut[] =
        "is of model.loss \"in_batch_softmax\"; leave it out of a model with "
        "another loss";
    if (model.has_temperature() && model.temperature() != 1) {
      add("model.temperature", kLeaveOut);
    }
    if (!model.sampling_probability().empty()) {
      add("model.sampling_probability", kLeaveOut);
    }
    return;
  }
  if (config.global_batch() == 0 && config.batch_per_replica() == 1) {
    add("batch_per_replica",
        "must be at least 2 with model.loss \"in_batch_softmax\", which learns "
        "from the other examples of a batch; found 1");
  }
  if (IsPipelined(config)) {
    add("pipeline",
        "computes parts of a batch by themselves, but model.loss "
        "\"in_batch_softmax\" compares an example with all of its batch; leave "
        "it out");
  }
}

// Adds what the settings about checkpoints say wrongly.
void CheckCheckpoints(const v1::CheckpointConfig& config,
                      const AddMistake& add) {
  if (config.every_steps() > 0 && config.every_seconds() > 0) {
    add("checkpoint.every_seconds",
        absl::StrCat("makes no sense together with checkpoint.every_steps (",
                     config.every_steps(), "): give one of them; found ",
                     config.every_seconds()));
  }
}

// Adds what does not go with a backup.
void CheckBackup(const v1::JobConfig& config, const SettingReader& reader,
                 const AddMistake& add) {
  const std::string& directory = config.backup_and_restore().directory();
  if (directory.empty()) return;
  if (absl::StripSuffix(directory, "/") ==
      absl::StripSuffix(config.run_dir(), "/")) {
    add("backup_and_restore.directory",
        "is run_dir, which keeps what comes out of the run; name another "
        "directory");
  }
  for (const char* setting :
       {"directory", "every_steps", "every_seconds", "keep", "keep_every_steps",
        "keep_every_hours", "keep_best"}) {
    const std::string path = absl::StrCat("checkpoint.", setting);
    if (KindOf(reader.PlaceOf(path)) == OriginKind::kDefault) continue;
    add(path,
        "makes no sense together with backup_and_restore, which is one "
        "checkpoint in a directory of its own; leave one of them out: a run "
        "goes on from checkpoints in its run_dir too");
  }
}

// Adds what the settings about the input say wrongly.
void CheckInput(const v1::InputConfig& config, const AddMistake& add) {
  if (config.has_train() && !config.directory().empty()) {
    add("input.train",
        "makes no sense together with input.directory: give train and test, "
        "each with a directory, or format and directory");
  }
  uint32_t threads = 0;
  if (config.parallelism() != "auto" &&
      (!absl::SimpleAtoi(config.parallelism(), &threads) || threads == 0 ||
       threads > 1024)) {
    add("input.parallelism",
        absl::StrCat("must be 1 to 1024 threads or \"auto\"; found \"",
                     Excerpt(config.parallelism()), "\""));
  }
  if (config.has_test() && !config.has_train()) {
    add("input.test", "needs input.train");
  }
  if (!config.has_train() && config.directory().empty()) {
    add("input.directory",
        "must not be empty; name the directory of the data, or give "
        "input.train");
  }
}

void CheckName(const std::string& name, const AddMistake& add) {
  const auto is_allowed = [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > 128 || name[0] == '.' ||
      !absl::c_all_of(name, is_allowed)) {
    add("name", absl::StrCat("must be 1 to 128 letters, digits, '.', '_' or "
                             "'-' and not begin with '.'; found \"",
                             Excerpt(name), "\""));
  }
}

}  // namespace

void CheckJob(const v1::JobConfig& config, const SettingReader& reader,
              Mistakes* mistakes) {
  const auto add = [&](const std::string& path, absl::string_view sentence) {
    if (!mistakes->HasUnder(path)) {
      mistakes->Add(reader.PlaceOf(path), path, sentence);
    }
  };
  CheckName(config.name(), add);
  CheckStrategySettings(config, add);  // First: it says more of staleness.
  CheckConsistency(config, add);
  CheckGroupConstants(config.optimizer(), reader, add);
  if (config.global_batch() > 0 &&
      KindOf(reader.PlaceOf("batch_per_replica")) != OriginKind::kDefault) {
    add("batch_per_replica", "follows from global_batch; give one of them");
  }
  CheckCustomModel(config, add);
  CheckElection(config, add);
  CheckFormats(config, add);
  CheckMemory(config, add);
  CheckPipeline(config, add);
  CheckSlices(config.model(), add);
  CheckOutputs(config, reader, add);
  CheckDistill(config, add);
  CheckQuantizationAware(config, add);
  CheckInBatch(config, add);
  CheckCheckpoints(config.checkpoint(), add);
  CheckBackup(config, reader, add);
  if (config.has_input() && !mistakes->HasAt("input")) {
    CheckInput(config.input(), add);
    CheckGrowingInput(config, add);
  }
  const v1::WarmStartConfig& warm_start = config.warm_start();
  if (!FitTogether(warm_start.variables(), warm_start.from())) {
    add("warm_start.from",
        absl::StrCat("must have as many * as warm_start.variables (\"",
                     Excerpt(warm_start.variables()),
                     "\") and as many names, "
                     "in the same order; found \"",
                     Excerpt(warm_start.from()), "\""));
  }
  // A value that was refused is not there.
  if (config.has_heartbeat_ms() && config.has_lease_ms() &&
      3 * uint64_t{config.heartbeat_ms()} > config.lease_ms()) {
    add("heartbeat_ms",
        absl::StrCat("must be at most a third of lease_ms (", config.lease_ms(),
                     "); found ", config.heartbeat_ms()));
  }
  if (!config.metrics_address().empty()) {
    const auto wrong = WrongAddress(config.metrics_address(), "metrics_address",
                                    /*least_port=*/0);
    if (wrong.has_value()) add("metrics_address", *wrong);
  }
}

}  // namespace paramd
