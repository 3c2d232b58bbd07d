#include "compute/pjrt/pjrt_client.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPlugin[] = "compute/pjrt/testing/libfake_plugin.so";

// On a plugin that does wrong what a test tells it to.
class PjrtClientTest : public ::testing::Test {
 protected:
  ~PjrtClientTest() override { unsetenv("PARAMD_FAKE_PJRT"); }

  static absl::StatusOr<std::shared_ptr<PjrtClient>> Open(const char* does,
                                                          size_t devices = 1) {
    setenv("PARAMD_FAKE_PJRT", does, 1);
    return PjrtClient::OfProcess(kPlugin, devices);
  }

  static std::string Refusal(const char* does) {
    const auto client = Open(does);
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(client.status().message());
  }

  // What the plugin has given and not got back.
  static int Objects() {
    void* const plugin = dlopen(kPlugin, RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(plugin, nullptr);
    return reinterpret_cast<int (*)()>(dlsym(plugin, "FakePjrtObjects"))();
  }
};

std::string RefusalOf(const std::string& library) {
  const auto client = PjrtClient::OfProcess(library, 1);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(client.status().message());
}

TEST_F(PjrtClientTest, ALibraryThatIsNotThereIsRefused) {
  EXPECT_THAT(RefusalOf("/nowhere/plugin.so"),
              HasSubstr("it can't be loaded: /nowhere/plugin.so"));
}

TEST_F(PjrtClientTest, ALibraryThatIsNoPluginIsRefused) {
  EXPECT_EQ(RefusalOf("libm.so.6"),
            "it is not a PJRT plugin: it exports no GetPjrtApi");
}

TEST_F(PjrtClientTest, APluginThatDoesNotFitIsRefused) {
  EXPECT_EQ(Refusal("null"), "its GetPjrtApi gives nothing");
  EXPECT_EQ(Refusal("major"),
            "it has version 1.7 of PJRT's C API; this program needs 0.x");
  EXPECT_EQ(Refusal("old"),
            "it has version 0.7 of PJRT's C API; this program needs a newer "
            "plugin");
}

TEST_F(PjrtClientTest, APluginThatFailsIsRefusedInItsWords) {
  EXPECT_EQ(Refusal("begin"), "it can't begin: told to fail at begin");
  EXPECT_EQ(Refusal("client"),
            "it can't reach its devices: told to fail at client");
  EXPECT_EQ(Refusal("none"), "it has no device");
  EXPECT_EQ(Objects(), 0);
}

TEST_F(PjrtClientTest, Promise4_APluginThatWaitsIsGivenUp) {
  setenv("PARAMD_FAKE_PJRT", "hang", 1);
  // By another name: of this one the process has nothing any more.
  const std::string library = std::string("./") + kPlugin;
  for (const absl::Duration patience :
       {absl::Milliseconds(1), absl::InfiniteDuration()}) {
    const auto client = PjrtClient::OfProcess(library, 1, patience);
    EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(client.status().message()),
                HasSubstr("it has not listed its devices for 1ms; it may be "
                          "waiting for a server of its own"));
  }
  // Other tests count what it has given.
  void* const plugin = dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
  const auto release =
      reinterpret_cast<bool (*)()>(dlsym(plugin, "FakePjrtRelease"));
  while (!release() || Objects() > 0) std::this_thread::yield();
}

TEST_F(PjrtClientTest, AllOfAProcessShareTheClientOfALibrary) {
  const auto first = Open("");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*Open("client"), *first);
  EXPECT_EQ((*first)->NameOf(0), "pjrt fake kind");
}

TEST_F(PjrtClientTest, AProcessorHasAsManyDevicesAsOneAsksFor) {
  EXPECT_EQ((*Open("cpu", 3))->device_count(), 3u);
  EXPECT_EQ((*Open("", 3))->device_count(), 1u);
  EXPECT_EQ(Objects(), 0);
}

TEST_F(PjrtClientTest, AProgramIsBroughtItsInputsAndGivesItsOutputsInOrder) {
  const auto client = *Open("");
  const auto program = client->Compile("text", 0, 2);
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const uint64_t b = 7;
  std::vector<float> a_out(6);
  uint64_t b_out = 0;
  const HloType matrix = {HloElement::kF32, {2, 3}};
  const HloType scalar = {HloElement::kU64, {}};
  std::vector<size_t> arrived;
  const absl::Status run =
      (*program)->Run({{a.data(), matrix}, {&b, scalar}},
                      {{a_out.data(), matrix}, {&b_out, scalar}},
                      [&](size_t output) { arrived.push_back(output); });
  ASSERT_TRUE(run.ok()) << run;
  EXPECT_EQ(a_out, a);
  EXPECT_EQ(b_out, 7u);
  EXPECT_THAT(arrived, ElementsAre(0, 1));
}

TEST_F(PjrtClientTest, ThreadsShareAClientAndAProgram) {
  const auto client = *Open("");
  const auto program = *client->Compile("text", 0, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(*PjrtClient::OfProcess(kPlugin, 1), client);
        const float in = static_cast<float>(t);
        float out = -1;
        const HloType scalar = {HloElement::kF32, {}};
        EXPECT_TRUE(
            program->Run({{&in, scalar}}, {{&out, scalar}}, [](size_t) {})
                .ok());
        EXPECT_EQ(out, in);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(PjrtClientTest, WhatCantBeCompiledIsTheJobsEnd) {
  const auto client = *Open("compile");
  EXPECT_EQ(client->Compile("text", 0, 1).status(),
            absl::InternalError("pjrt fake kind can't compile the model: told "
                                "to fail at compile"));
}

TEST_F(PjrtClientTest, ADeviceThatFailsIsLostAndOneThatIsFullIsNot) {
  {
    const auto client = *Open("");
    const auto program = *client->Compile("text", 0, 1);
    const float in = 1;
    float out = 0;
    const HloType scalar = {HloElement::kF32, {}};
    const auto run = [&](const char* does) {
      setenv("PARAMD_FAKE_PJRT", does, 1);
      return program->Run({{&in, scalar}}, {{&out, scalar}},
                          [](size_t) { ADD_FAILURE(); });
    };
    EXPECT_EQ(run("execute"),
              absl::UnavailableError(
                  "pjrt fake kind fails: told to fail at execute"));
    EXPECT_EQ(run("memory"),
              absl::ResourceExhaustedError(
                  "pjrt fake kind fails: told to fail at memory"));
  }
  EXPECT_EQ(Objects(), 0);
}

}  // namespace
}  // namespace paramd
