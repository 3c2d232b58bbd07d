#include <cstdint>
#include <cstring>
#include <string>

#include "tensor/fuzz/events.h"

// libFuzzer calls this in place of its own.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                          size_t most, unsigned int seed) {
  std::vector<paramd::fuzz::Event> events =
      paramd::fuzz::ReadEvents({reinterpret_cast<const char*>(data), size});
  paramd::fuzz::MutateEvents(seed, &events);
  const std::string bytes = paramd::fuzz::WriteEvents(events);
  if (bytes.size() > most) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
