// Reads one element past the end of an allocation.
#include <vector>

int main() {
  std::vector<int> values(3);
  volatile int beyond = 3;
  volatile int sink = values.data()[beyond];
  sink = 0;
  return sink;
}
