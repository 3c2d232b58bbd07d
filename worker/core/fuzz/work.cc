#include "worker/core/fuzz/work.h"

#include <cstring>
#include <memory>
#include <utility>

#include "proto/paramd/v1/storage.pb.h"

namespace paramd::fuzz {

bool DoWork(const Outbox::IoItem& item, IoResult* result) {
  const auto* const compute =
      dynamic_cast<const v1::ComputeGradient*>(item.head.get());
  if (compute == nullptr) return false;
  auto computed = std::make_unique<v1::ComputeGradientResult>();
  computed->set_loss(1);
  computed->set_examples(compute->end() - compute->begin());
  result->head = std::move(computed);
  // A gradient for each variable, of its size.
  for (const Buffer& weights : item.payload) {
    Buffer gradient = Buffer::Allocate(weights.size());
    std::memset(gradient.mutable_bytes().data(), 0, weights.size());
    result->payload.push_back(std::move(gradient));
  }
  return true;
}

}  // namespace paramd::fuzz
