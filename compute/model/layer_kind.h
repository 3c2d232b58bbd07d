#ifndef PARAMD_COMPUTE_MODEL_LAYER_KIND_H_
#define PARAMD_COMPUTE_MODEL_LAYER_KIND_H_

#include <type_traits>

#include "absl/types/optional.h"

#include "compute/model/layer.h"

namespace paramd {

// What `call` makes of the layer as the one of these kinds that it is; nullopt
// if it is none of them. So whoever writes layers in another form lists those
// that have one, and Layer need not know the form:
//
//   return CallIfOneOf<Dense, Dropout>(
//       layer, [&](const auto& kind) { return Write(kind, pass); });
template <class Kind, class... Kinds, class Function>
auto CallIfOneOf(const Layer& layer, const Function& call)
    -> absl::optional<std::invoke_result_t<Function, const Kind&>> {
  if (const auto* const kind = dynamic_cast<const Kind*>(&layer)) {
    return call(*kind);
  }
  if constexpr (sizeof...(Kinds) > 0) {
    return CallIfOneOf<Kinds...>(layer, call);
  }
  return absl::nullopt;
}

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_LAYER_KIND_H_
