#include "net/testing/loopback_address.h"

#include <random>

#include "absl/strings/str_cat.h"

namespace paramd {

std::string DrawLoopbackHost() {
  std::random_device random;
  // Neither 127.0.x.y, where services of the machine listen, nor .0 and .255.
  return absl::StrCat("127.", 1 + random() % 254, ".", random() % 256, ".",
                      1 + random() % 254);
}

}  // namespace paramd
