#include "checkpoint/fuzz/files.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"

#include "base/crc32c.h"
#include "base/fuzz/pieces.h"
#include "checkpoint/manifest.h"
#include "checkpoint/storage.h"
#include "checkpoint/testing/memory_storage.h"

namespace paramd::fuzz {
namespace {

constexpr size_t kMostFiles = 8;

testing::MemoryStorage& Storage() {
  static auto* const storage = [] {
    auto* const made = new testing::MemoryStorage();
    AddStorage("memory", made);
    return made;
  }();
  return *storage;
}

uint32_t Sum(absl::string_view bytes) {
  return Crc32c(
      {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

}  // namespace

const char kDirectory[] = "memory://000001-00000005.step-9";

void SetFiles(const std::map<std::string, std::string>& files) {
  Storage().objects().clear();
  for (const auto& [name, content] : files) {
    Storage().objects()[PathOf(name)] = content;
  }
}

std::string PathOf(absl::string_view name) {
  return absl::StrCat(kDirectory, "/", name);
}

std::map<std::string, std::string> ReadFiles(absl::string_view bytes) {
  std::map<std::string, std::string> files;
  Pieces pieces(bytes);
  while (!pieces.done() && files.size() < kMostFiles) {
    const std::string name(pieces.TakeSized());
    files[name] = std::string(pieces.TakeSized());
  }
  return files;
}

std::string WriteFiles(const std::map<std::string, std::string>& files) {
  std::string bytes;
  for (const auto& [name, content] : files) {
    AddSized(name, &bytes);
    AddSized(content, &bytes);
  }
  return bytes;
}

void MakeSumsRight(std::map<std::string, std::string>* files) {
  const auto found = files->find(kManifestFile);
  if (found == files->end()) return;
  auto manifest = ParseManifest(found->second);
  if (!manifest.ok()) return;
  for (v1::ShardFile& file : *manifest->mutable_files()) {
    const auto content = files->find(file.name());
    if (content == files->end()) continue;
    file.set_bytes(content->second.size());
    file.set_crc32c(Sum(content->second));
  }
  const auto text = EncodeManifest(*manifest);
  if (!text.ok()) return;
  found->second = *text;
  (*files)[kManifestSumFile] = absl::StrFormat("%08x\n", Sum(*text));
}

}  // namespace paramd::fuzz
