// Loses the only pointer to an allocation.
int* volatile kept;

int main() {
  kept = new int[100];
  kept = nullptr;
  return 0;
}
