// Writes the corpora of the targets beside it: small checkpoints.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fuzz/seeds.h"
#include "checkpoint/fuzz/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/quantization.h"
#include "checkpoint/testing/sample.h"
#include "config/optimizer_slots.h"

namespace paramd::testing {
namespace {

using Files = std::map<std::string, std::string>;
using Seeds = std::vector<std::pair<std::string, std::string>>;

Files FilesIn(const std::string& directory) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] =
        std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

// A checkpoint of the number that the targets' directory has.
Files Sample(const std::string& root,
             const std::vector<v1::Variable>& variables,
             const std::vector<std::string>& slots, uint32_t servers,
             uint64_t slice_bytes) {
  std::filesystem::remove_all(root);
  const auto path =
      CommitSample(root, variables, slots, 1, 5, 9, servers, slice_bytes);
  CHECK(path.ok(), path.status().ToString());
  return FilesIn(*path);
}

Files Quantized(const std::string& root) {
  std::filesystem::remove_all(root);
  const std::vector<v1::Variable> variables = {
      SampleVariable("d/kernel", {2, 2}), SampleVariable("d/bias", {2})};
  Quantization quantization;
  quantization.layers.push_back(
      {"d", "dense", "", Quantization::Input{0.5f, 3}});
  quantization.left.push_back({"e", "it has no weights"});
  const auto written = WriteQuantized(
      root, SampleManifest(variables, {}, 1, 5, 9), quantization,
      {{"d/kernel", "I8", {2, 2}, "\x01\x02\x03\x04", {0.5f, 0.25f}},
       {"d/bias", "F32", {2}, std::string(8, '\0'), {}}});
  CHECK(written.ok(), written.status().ToString());
  return FilesIn(root);
}

// What begins with the byte that wants checksums made right.
std::string Whole(const Files& files) { return '\1' + fuzz::WriteFiles(files); }

void WriteAll(const std::string& directory) {
  const std::string root = std::filesystem::temp_directory_path() / "seeds";
  const std::vector<v1::Variable> two = {SampleVariable("a", {2, 3}),
                                         SampleVariable("b", {})};
  v1::Variable table = SampleVariable("table", {6, 2});
  table.set_sparse(true);
  table.set_keyed(true);
  Seeds checkpoints, manifests, tensors;
  const auto add = [&](const std::string& name, const Files& files) {
    checkpoints.emplace_back(name, Whole(files));
    manifests.emplace_back(name, files.at(kManifestFile));
    for (const auto& [file, content] : files) {
      if (file.find(".safetensors") == file.size() - 12) {
        tensors.emplace_back(name, content);
      }
    }
  };
  add("plain", Sample(root, two, {}, 1, 1 << 20));
  add("slots", Sample(root, two, {"momentum"}, 1, 1 << 20));
  add("two_servers", Sample(root, two, {}, 2, 12));
  add("keyed",
      Sample(root, {table}, {std::string(kKeySlot), std::string(kUsedSlot)}, 1,
             1 << 20));
  add("without_keys", Sample(root, {table}, {}, 1, 1 << 20));
  add("quantized", Quantized(root));
  checkpoints.emplace_back(
      "wrong_sums", '\0' + Whole(Sample(root, two, {}, 1, 1 << 20)).substr(1));
  fuzz::WriteSeeds(directory, "checkpoint", checkpoints);
  fuzz::WriteSeeds(directory, "manifest", manifests);
  fuzz::WriteSeeds(directory, "safetensors", tensors);
  std::filesystem::remove_all(root);
  Quantization dynamic;
  dynamic.mode = Quantization::Mode::kDynamic;
  Quantization calibrated;
  calibrated.observer = "minmax";
  calibrated.examples = 100;
  calibrated.layers.push_back(
      {"d", "conv2d", "norm", Quantization::Input{0.5f, 3}});
  Quantization wide = calibrated;
  wide.activation_bits = 16;
  Quantization half;
  half.mode = Quantization::Mode::kFloat16;
  half.left.push_back({"e", "why"});
  fuzz::WriteSeeds(directory, "quantization",
                   {{"dynamic", EncodeQuantization(dynamic)},
                    {"calibrated", EncodeQuantization(calibrated)},
                    {"wide", EncodeQuantization(wide)},
                    {"half", EncodeQuantization(half)},
                    {"no_mode", "{\"layers\": []}"},
                    {"empty", "{}"}});
}

}  // namespace
}  // namespace paramd::testing

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  paramd::testing::WriteAll(argv[1]);
  return 0;
}
