// Layers that contain layers.
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "compute/model/gated_sums.h"
#include "compute/model/layer_builder.h"
#include "compute/model/recompute.h"
#include "compute/model/residual.h"

namespace paramd {

absl::StatusOr<std::unique_ptr<Sequence>> LayerBuilder::BuildLayers(
    const v1::Layer::Branch& branch) {
  if (!branch.layers().empty()) return Build(branch.layers());
  RETURN_IF_ERROR(Take());
  std::vector<std::unique_ptr<Layer>> as_it_is;
  as_it_is.push_back(std::make_unique<Reshape>("branch", dims_, dims_));
  return std::make_unique<Sequence>("layers", std::move(as_it_is));
}

absl::StatusOr<Parallel::Branch> LayerBuilder::BuildBranch(
    const v1::Layer::Branch& branch) {
  Parallel::Branch made;
  if (!branch.input().empty()) {
    size_t input = 0;
    while (inputs_[input].name != branch.input()) ++input;
    dims_ = inputs_[input].dims;
    read_ = {.input = input, .bound = inputs_[input].bound};
    made.feature = input;
  }
  ASSIGN_OR_RETURN(made.layers, BuildLayers(branch));
  return made;
}

LayerBuilder::Made LayerBuilder::MakeParallel(
    const v1::Layer::Parallel& parallel) {
  std::string name = NameOf("parallel", "");
  const bool sum = parallel.merge() == v1::Layer::Parallel::SUM;
  const Dims input = dims_;
  const Read read = read_;
  std::vector<Parallel::Branch> branches;
  uint64_t values = 0;
  for (const v1::Layer::Branch& branch : parallel.branches()) {
    dims_ = input;
    read_ = read;
    ASSIGN_OR_RETURN(branches.emplace_back(), BuildBranch(branch));
    if (integers()) {
      return absl::InvalidArgumentError(
          absl::StrCat("branch ", branches.size(), " of parallel layer '", name,
                       "' gives integers: put \"embedding\" in it"));
    }
    const Dims& others = branches.front().layers->output_dims();
    if (sum && dims_ != others) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parallel layer '", name, "' adds ", DimsText(dims_), " of branch ",
          branches.size(), " to ", DimsText(others), " of branch 1"));
    }
    values += SizeOf(dims_);
    if (!Fits({values})) {
      kind_ = "parallel";
      last_ = name;
      return Wants("branches that give fewer than 2^31 values together");
    }
  }
  if (branches.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallel layer '", name, "' has no branches"));
  }
  last_ = name;
  return std::make_unique<Parallel>(std::move(name), input, std::move(branches),
                                    sum);
}

LayerBuilder::Made LayerBuilder::MakeMixture(
    const v1::Layer::Mixture& mixture) {
  std::string name = NameOf("mixture", mixture.name());
  RETURN_IF_ERROR(CheckNumbers("mixture"));
  if (dims_.size() != 1) {
    return Wants("one dimension", "put \"flatten\" before it");
  }
  const uint64_t gates = mixture.has_gates() ? mixture.gates() : 1;
  const auto experts = static_cast<uint64_t>(mixture.experts_size());
  if (gates == 0 || experts == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("mixture layer '", name, "' has no ",
                     gates == 0 ? "gates" : "experts"));
  }
  if (!Fits({dims_[0], gates, experts})) {
    return Wants("fewer gates: their weights must be below 2^31");
  }
  const Dims input = dims_;
  const Read read = read_;
  std::vector<std::unique_ptr<Layer>> gate;
  gate.push_back(std::make_unique<Dense>(name, input, gates * experts));
  std::vector<Parallel::Branch> branches;
  branches.emplace_back().layers =
      std::make_unique<Sequence>("gates", std::move(gate));
  uint64_t values = 0;
  for (const v1::Layer::Branch& expert : mixture.experts()) {
    dims_ = input;
    read_ = read;
    ASSIGN_OR_RETURN(branches.emplace_back(), BuildBranch(expert));
    const uint64_t number = branches.size() - 1;
    if (integers()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expert ", number, " of mixture layer '", name,
                       "' gives integers: put \"embedding\" in it"));
    }
    if (number == 1) values = SizeOf(dims_);
    if (SizeOf(dims_) != values) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mixture layer '", name, "' adds ", SizeOf(dims_),
          " values of expert ", number, " to ", values, " of expert 1"));
    }
  }
  last_ = name;
  if (!Fits({experts, gates + values}) || !Fits({gates, values})) {
    return absl::InvalidArgumentError(
        absl::StrCat("mixture layer '", name,
                     "' needs experts that give fewer values: below 2^31 "
                     "together"));
  }
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::make_unique<Parallel>(name, input, std::move(branches),
                                              /*sum=*/false));
  layers.push_back(std::make_unique<GatedSums>(name, gates, experts, values));
  return std::make_unique<Sequence>(std::move(name), std::move(layers));
}

LayerBuilder::Made LayerBuilder::MakeResidual(
    const v1::Layer::Residual& residual) {
  std::string name = NameOf("residual", "");
  RETURN_IF_ERROR(CheckNumbers("residual"));
  if (residual.layers().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("residual layer '", name, "' has no layers"));
  }
  const Dims input = dims_;
  const Read read = read_;
  ASSIGN_OR_RETURN(std::unique_ptr<Sequence> body, Build(residual.layers()));
  const Dims output = dims_;
  dims_ = input;
  read_ = read;
  std::unique_ptr<Sequence> shortcut;
  if (!residual.shortcut().empty()) {
    ASSIGN_OR_RETURN(shortcut, Build(residual.shortcut()));
  }
  if (dims_ != output) {
    return absl::InvalidArgumentError(absl::StrCat(
        "residual layer '", name, "' adds ", DimsText(output),
        " of its layers ", "to ", DimsText(dims_), " of its ",
        residual.shortcut().empty()
            ? "input: give it a \"shortcut\" that changes the one to the other"
            : "shortcut"));
  }
  last_ = name;
  return std::make_unique<Residual>(std::move(name), std::move(body),
                                    std::move(shortcut), residual.drop_rate());
}

LayerBuilder::Made LayerBuilder::MakeRecompute(
    const v1::Layer::Recompute& recompute) {
  std::string name = NameOf("recompute", "");
  if (recompute.layers().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("recompute layer '", name, "' has no layers"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Sequence> layers, Build(recompute.layers()));
  if (integers()) {
    return absl::InvalidArgumentError(
        absl::StrCat("recompute layer '", name,
                     "' gives integers: put \"embedding\" in it"));
  }
  last_ = name;
  return std::make_unique<Recompute>(std::move(name), std::move(layers));
}

}  // namespace paramd
