#include "input/own_map.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

// Never destroyed: threads may still map.
std::map<std::string, OwnMap, std::less<>>& Maps() {
  static auto* const maps = new std::map<std::string, OwnMap, std::less<>>();
  return *maps;
}

std::string KnownMaps() {
  std::vector<std::string> names;
  for (const auto& [name, map] : Maps()) {
    names.push_back(absl::StrCat("'", name, "'"));
  }
  return names.empty() ? "it has none" : absl::StrJoin(names, ", ");
}

bool IsAsSaid(const OwnedTensor& value, const FeatureSpec& said) {
  if (value.dtype() != said.dtype || value.dims().size() != said.dims.size()) {
    return false;
  }
  for (size_t d = 0; d < said.dims.size(); ++d) {
    if (said.dims[d] > 0 && said.dims[d] != value.dims()[d]) return false;
  }
  return true;
}

}  // namespace

void AddMap(std::string name, OwnMap map) {
  CHECK(map.spec != nullptr && map.change != nullptr, "a map does something");
  const bool is_new = Maps().emplace(std::move(name), std::move(map)).second;
  CHECK(is_new, "two maps have two names");
}

const OwnMap* FindMap(absl::string_view name) {
  const auto found = Maps().find(std::string(name));
  return found == Maps().end() ? nullptr : &found->second;
}

absl::StatusOr<std::unique_ptr<Transform>> MakeOwnMap(
    const v1::InputStage::Map& config, const TransformContext& context) {
  const OwnMap* const map = FindMap(config.name());
  if (map == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("this program has no map '", config.name(), "' (",
                     KnownMaps(), "); run the one that brings it"));
  }
  ASSIGN_OR_RETURN(const size_t f,
                   FindFeature(context.input, config.feature()));
  InputSpec spec = context.input;
  auto said = map->spec(spec.features[f]);
  if (!said.ok()) {
    return absl::Status(
        said.status().code(),
        absl::StrCat("'", config.name(), "': ", said.status().message()));
  }
  said->name = spec.features[f].name;
  spec.features[f] = *said;
  return std::make_unique<FeatureTransform>(
      "map", std::move(spec), f, context.key,
      [map, said = *said, name = config.name()](
          const OwnedTensor& in, RandomStream random,
          OwnedTensor* out) -> absl::Status {
        RETURN_IF_ERROR(map->change(in, random, out));
        if (IsAsSaid(*out, said)) return absl::OkStatus();
        return absl::InvalidArgumentError(absl::StrCat(
            "'", name, "' has made ", ShapeText(out->dtype(), out->dims()),
            " of it, not ", ShapeText(said.dtype, said.dims)));
      });
}

}  // namespace paramd
