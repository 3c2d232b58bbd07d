#include "compute/model/nested_layers.h"

#include <utility>

#include "compute/model/layer_kind.h"
#include "compute/model/parallel.h"
#include "compute/model/recompute.h"
#include "compute/model/residual.h"
#include "compute/model/swapped.h"

namespace paramd {
namespace {

using Held = std::vector<const Sequence*>;
using Sequences = std::vector<std::unique_ptr<Sequence>>;

Held HeldOf(const Sequence& layers) { return {&layers}; }
Held HeldOf(const Recompute& layer) { return {&layer.layers()}; }
Held HeldOf(const Residual& layer) {
  Held held = {&layer.body()};
  if (layer.shortcut() != nullptr) held.push_back(layer.shortcut());
  return held;
}
Held HeldOf(const Parallel& layer) {
  Held held;
  for (size_t i = 0; i < layer.branches(); ++i) {
    held.push_back(&layer.branch_layers(i));
  }
  return held;
}

// The same layer, holding as many others.
std::shared_ptr<const Layer> Around(const Sequence&, Sequences held) {
  return std::move(held[0]);
}
std::shared_ptr<const Layer> Around(const Swapped& layer, Sequences held) {
  return std::make_shared<Swapped>(layer.name(), std::move(held[0]));
}
std::shared_ptr<const Layer> Around(const Recompute& layer, Sequences held) {
  return std::make_shared<Recompute>(layer.name(), std::move(held[0]));
}
std::shared_ptr<const Layer> Around(const Residual& layer, Sequences held) {
  return std::make_shared<Residual>(
      layer.name(), std::move(held[0]),
      held.size() > 1 ? std::move(held[1]) : nullptr, layer.drop_rate());
}
std::shared_ptr<const Layer> Around(const Parallel& layer, Sequences held) {
  std::vector<Parallel::Branch> branches(held.size());
  for (size_t i = 0; i < held.size(); ++i) {
    branches[i].layers = std::move(held[i]);
    branches[i].feature = layer.feature(i);
  }
  return std::make_shared<Parallel>(layer.name(), layer.input_dims(),
                                    std::move(branches), layer.adds());
}

// Of one that holds layers.
std::shared_ptr<const Layer> AroundOthers(const Layer& layer, Sequences held) {
  return *CallIfOneOf<Sequence, Swapped, Recompute, Residual, Parallel>(
      layer, [&](const auto& kind) { return Around(kind, std::move(held)); });
}

}  // namespace

std::vector<const Sequence*> HeldBy(const Layer& layer) {
  return CallIfOneOf<Sequence, Recompute, Residual, Parallel>(
             layer, [](const auto& kind) { return HeldOf(kind); })
      .value_or(Held());
}

std::unique_ptr<Sequence> Rebuild(
    const Sequence& layers,
    absl::FunctionRef<Replacement(const Sequence& sequence, size_t layer)>
        replace) {
  Sequence::Layers made;
  for (size_t i = 0; i < layers.size();) {
    Replacement replacement = replace(layers, i);
    if (replacement.layer != nullptr) {
      made.push_back(std::move(replacement.layer));
      i = replacement.end;
      continue;
    }
    Sequences held;
    for (const Sequence* const one : HeldBy(layers.layer(i))) {
      held.push_back(Rebuild(*one, replace));
    }
    made.push_back(held.empty()
                       ? layers.shared_layer(i)
                       : AroundOthers(layers.layer(i), std::move(held)));
    ++i;
  }
  return std::make_unique<Sequence>(layers.name(), made);
}

}  // namespace paramd
