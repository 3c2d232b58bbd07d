// Adds beyond the largest int.
#include <climits>

int main() {
  volatile int largest = INT_MAX;
  volatile int sink = largest + 1;
  sink = 0;
  return sink;
}
