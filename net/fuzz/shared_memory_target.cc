// Whatever a peer says of payloads in shared memory, and whatever it writes
// into its words, what is taken lies in its arena, and what this end puts is
// what the peer takes. An input is a list of such descriptions.

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "net/shared_memory.h"

namespace paramd {
namespace {

constexpr uint64_t kId = 7;

// One for all inputs: 32 MiB take a while to map.
const std::shared_ptr<SharedMapping>& Mapping() {
  static const auto* const mapping = [] {
    auto made = SharedMapping::Make();
    CHECK(made.ok(), "there is memory to share");
    close(made->fd);
    return new std::shared_ptr<SharedMapping>(std::move(made->mapping));
  }();
  return *mapping;
}

void CheckTaken(const BufferChain& payload) {
  const auto arena = Mapping()->arena(SharedMapping::Arena::kClient);
  for (const Buffer& buffer : payload) {
    CHECK(buffer.bytes().data() >= arena.data() &&
              buffer.bytes().data() + buffer.size() <=
                  arena.data() + arena.size(),
          "what is taken lies in the arena");
  }
  CHECK(ChainSize(payload) <= SharedMapping::kArenaBytes,
        "and is no more than an arena");
}

void Check(fuzz::Pieces pieces) {
  for (const auto arena :
       {SharedMapping::Arena::kClient, SharedMapping::Arena::kServer}) {
    for (size_t unit = 0; unit < SharedMapping::kUnits; ++unit) {
      Mapping()->word(arena, unit).store(0, std::memory_order_relaxed);
    }
  }
  SharedMemory client(SharedMemory::End::kClient, kId, Mapping());
  SharedMemory server(SharedMemory::End::kServer, kId, Mapping());
  BufferChain held;  // Of the last payload that was taken.
  while (!pieces.done()) {
    const size_t unit = pieces.Number(2) % SharedMapping::kUnits;
    const auto word = static_cast<uint32_t>(pieces.Number(1));
    Mapping()
        ->word(SharedMapping::Arena::kClient, unit)
        .store(word, std::memory_order_relaxed);
    v1::SharedPayload shared;
    if (!shared.ParseFromString(std::string(pieces.TakeSized()))) return;
    const auto taken = server.Take(shared);
    if (!taken.ok()) {
      fuzz::CheckRefusal(taken.status());
      continue;
    }
    CheckTaken(*taken);
    held = *taken;
  }
  const std::string sent(SharedMemory::kLeastBytes + 1, 's');
  v1::SharedPayload put;
  if (!server.Put({Buffer::Copy(sent)}, &put)) return;
  const auto received = client.Take(put);
  CHECK(received.ok(), "what is put is taken");
  CHECK(FlattenForTest(*received) == sent, "and is the same");
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::Check(paramd::fuzz::Pieces(data, size));
  return 0;
}
