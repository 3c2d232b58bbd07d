#include "config/optimizer_check.h"

#include "absl/strings/str_cat.h"

#include "config/optimizer_groups.h"

namespace paramd {
namespace {

// The share of zeros with structure two_of_four.
constexpr double kTwoOfFour = 0.5;

// Of scope global: what a server answers with holds the histograms of all, and
// some ten thousand classes of each, in a control message.
constexpr int kMostGlobal = 8;

void CheckGlobalPruning(const v1::OptimizerConfig& config,
                        const AddMistake& add) {
  int global = 0;
  for (const v1::OptimizerConfig::Pruning& pruning : config.pruning()) {
    if (pruning.scope() == v1::OptimizerConfig::Pruning::GLOBAL) ++global;
  }
  if (global <= kMostGlobal) return;
  add("optimizer.pruning",
      absl::StrCat("may have at most ", kMostGlobal,
                   " entries of scope \"global\"; found ", global));
}

void CheckPruning(const v1::OptimizerConfig& config, const AddMistake& add) {
  CheckGlobalPruning(config, add);
  for (int p = 0; p < config.pruning_size(); ++p) {
    const v1::OptimizerConfig::Pruning& pruning = config.pruning(p);
    const std::string path = absl::StrCat("optimizer.pruning[", p, "]");
    if (pruning.initial_sparsity() > pruning.sparsity()) {
      add(absl::StrCat(path, ".initial_sparsity"),
          absl::StrCat("must be at most sparsity (", pruning.sparsity(),
                       "); found ", pruning.initial_sparsity()));
    }
    if (pruning.end_step() < pruning.begin_step()) {
      add(absl::StrCat(path, ".end_step"),
          absl::StrCat("must be at least begin_step (", pruning.begin_step(),
                       "); found ", pruning.end_step()));
    }
    if (pruning.structure() == v1::OptimizerConfig::Pruning::CHANNELS &&
        pruning.scope() == v1::OptimizerConfig::Pruning::GLOBAL) {
      add(absl::StrCat(path, ".scope"),
          "\"global\" makes no sense with structure \"channels\", of which "
          "each layer keeps its share; leave it out");
    }
    if (pruning.structure() != v1::OptimizerConfig::Pruning::TWO_OF_FOUR) {
      continue;
    }
    if (pruning.sparsity() != kTwoOfFour) {
      add(absl::StrCat(path, ".sparsity"),
          absl::StrCat("must be ", kTwoOfFour,
                       " with structure \"two_of_four\"; found ",
                       pruning.sparsity()));
    }
    if (pruning.scope() == v1::OptimizerConfig::Pruning::GLOBAL) {
      add(absl::StrCat(path, ".scope"),
          "\"global\" makes no sense with structure \"two_of_four\", where "
          "each four weights decide for themselves; leave it out");
    }
  }
}

}  // namespace

void CheckOptimizer(const v1::OptimizerConfig& config, const AddMistake& add) {
  if (config.has_adamw() && config.weight_decay() > 0) {
    add("optimizer.weight_decay",
        "makes no sense together with adamw, which has its own; give "
        "optimizer.adamw.weight_decay");
  }
  if (config.has_lamb() && config.weight_decay() > 0) {
    add("optimizer.weight_decay",
        "makes no sense together with lamb, which has its own; give "
        "optimizer.lamb.weight_decay");
  }
  const auto check_one = [&](bool one, bool other, absl::string_view of,
                             absl::string_view beside) {
    if (!one || !other) return;
    add(absl::StrCat("optimizer.", of),
        absl::StrCat("makes no sense together with optimizer.", beside,
                     "; give one of them"));
  };
  const bool clips_value = config.clip_value() > 0;
  const bool clips_norm = config.clip_norm() > 0;
  const bool clips_all = config.clip_global_norm() > 0;
  check_one(clips_norm, clips_value, "clip_norm", "clip_value");
  check_one(clips_all, clips_value, "clip_global_norm", "clip_value");
  check_one(clips_all, clips_norm, "clip_global_norm", "clip_norm");
  for (int g = 0; g < config.groups_size(); ++g) {
    v1::OptimizerConfig of_group = config;
    const auto mistake = UseGroup(g, &of_group);
    const std::string path = absl::StrCat("optimizer.groups[", g, "].");
    if (mistake.has_value()) {
      add(absl::StrCat(path, mistake->key), mistake->sentence);
    } else if (config.groups(g).sgd().nesterov() &&
               of_group.sgd().momentum() == 0) {
      add(absl::StrCat(path, "sgd.nesterov"), "needs momentum");
    }
  }
  CheckPruning(config, add);
  const auto schedule = config.schedule();
  if (schedule == v1::OptimizerConfig::STEP && config.decay_steps() == 0) {
    add("optimizer.decay_steps",
        "is missing; with schedule \"step\" say after how many steps the rate "
        "falls");
  }
  const bool ends = schedule == v1::OptimizerConfig::POLYNOMIAL ||
                    schedule == v1::OptimizerConfig::COSINE ||
                    schedule == v1::OptimizerConfig::ONE_CYCLE;
  if (ends && config.decay_steps() > 0 &&
      config.warmup_steps() >= config.decay_steps()) {
    add("optimizer.warmup_steps",
        absl::StrCat("must be below optimizer.decay_steps (",
                     config.decay_steps(), "), which it is part of; found ",
                     config.warmup_steps()));
  }
}

}  // namespace paramd
