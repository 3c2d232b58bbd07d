#ifndef PARAMD_COMPUTE_COMPILED_EMIT_LOSS_H_
#define PARAMD_COMPUTE_COMPILED_EMIT_LOSS_H_

#include "compute/hlo/hlo_graph.h"
#include "compute/model/loss.h"

namespace paramd {

// The derivative of a loss by the outputs, as a device writes it, as a part of
// a program: of outputs [examples, ...] of float32, a target [examples, ...],
// and a scale, a scalar. `weights`, [examples], if the examples have some.
// REQUIRES: the loss is not IsOfBatch().
HloValue EmitGradient(const Loss& loss, HloValue outputs, HloValue target,
                      HloValue scale, HloValue weights = {});

}  // namespace paramd

#endif  // PARAMD_COMPUTE_COMPILED_EMIT_LOSS_H_
