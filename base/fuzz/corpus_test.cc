// Runs a fuzz target over the files of a directory, the first argument, and
// over as many mutations of them as the second one says. One seed gives them:
// they are the same in every run. A target that has a mutator of its own makes
// most of them.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(
    uint8_t* data, size_t size, size_t most, unsigned int seed);

namespace paramd {
namespace {

std::string* directory = nullptr;
int mutations = 0;

const std::string* current = nullptr;

// A target CHECKs: what it failed on goes into the corpus. Each byte as
// printf(1) reads it.
void PrintCurrent(int) {
  constexpr absl::string_view kText = "failed on this input:\n";
  bool ok = write(STDERR_FILENO, kText.data(), kText.size()) > 0;
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : *current) {
    const auto byte = static_cast<unsigned char>(c);
    const char text[] = {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    ok = ok && write(STDERR_FILENO, text, sizeof(text)) > 0;
  }
  signal(SIGABRT, SIG_DFL);
}

void RunOn(const std::string& input) {
  current = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

std::vector<std::string> ReadCorpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(*directory)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  return inputs;
}

// Pieces that parsers look at closely.
constexpr const char* kWords[] = {
    "\"",    "{",      "}",          "[",       "]",         ":",
    ",",     "null",   "true",       "0",       "-1",        "1e999",
    "65536", "{0..9}", "{0..99999}", "\\u0000", "\\ud800",   "\xff",
    "\n",    " ",      "ps",         "worker",  "\"chief\"", "\"0\": ",
    "$(X)",  "%a%",    "a:1",        "=",       ";"};

std::string Mutate(std::string input, const std::string& other,
                   RandomStream* random) {
  const uint64_t edits = 1 + random->Below(4);
  for (uint64_t i = 0; i < edits; ++i) {
    const size_t at = random->Below(input.size() + 1);
    const size_t length = random->Below(8);
    switch (random->Below(5)) {
      case 0:
        input.insert(at, kWords[random->Below(std::size(kWords))]);
        break;
      case 1:
        input.erase(at, length);
        break;
      case 2:
        if (at < input.size()) input[at] = static_cast<char>(random->Bits());
        break;
      case 3:
        input.insert(at, input.substr(random->Below(input.size() + 1), 40));
        break;
      default:
        input =
            input.substr(0, at) + other.substr(random->Below(other.size() + 1));
    }
  }
  return input;
}

std::string MutateAsTarget(std::string input, RandomStream* random) {
  const size_t size = input.size();
  input.resize(2 * size + 4096);
  input.resize(LLVMFuzzerCustomMutator(
      reinterpret_cast<uint8_t*>(input.data()), size, input.size(),
      static_cast<unsigned int>(random->Bits())));
  return input;
}

TEST(CorpusTest, EveryInputAndItsMutationsKeepTheRules) {
  signal(SIGABRT, PrintCurrent);
  const std::vector<std::string> corpus = ReadCorpus();
  ASSERT_GE(corpus.size(), 5u) << *directory;
  for (const std::string& input : corpus) RunOn(input);
  RandomStream random(1);
  for (int i = 0; i < mutations; ++i) {
    const std::string& input = corpus[random.Below(corpus.size())];
    const std::string& other = corpus[random.Below(corpus.size())];
    const bool own = LLVMFuzzerCustomMutator != nullptr && random.Chance(0.75);
    RunOn(own ? MutateAsTarget(input, &random) : Mutate(input, other, &random));
  }
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 3) return 2;
  std::string path = argv[1];
  paramd::directory = &path;
  paramd::mutations = std::atoi(argv[2]);
  return RUN_ALL_TESTS();
}
