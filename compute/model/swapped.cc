#include "compute/model/swapped.h"

#include "base/check.h"
#include "compute/model/swap_file.h"

namespace paramd {

void Swapped::Forward(const Pass& pass) const {
  Recompute::Forward(pass);
  const Context& context = *pass.context;
  if (!context.training || context.IsAbandoned()) return;
  CHECK(context.swap != nullptr, "what is swapped has a file");
  // What the layers keep is first in scratch memory; see Recompute::Lay.
  context.swap->Write(this, {pass.scratch, layers().KeptBytes(context.examples,
                                                              context.dtype)});
}

void Swapped::KeepAgain(const BackwardPass& inner) const {
  const Context& context = *inner.context;
  context.swap->Read(
      this, {inner.kept, layers().KeptBytes(context.examples, context.dtype)});
}

}  // namespace paramd
