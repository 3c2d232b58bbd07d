#ifndef PARAMD_COMPUTE_DEVICE_TESTING_TEST_DEVICE_H_
#define PARAMD_COMPUTE_DEVICE_TESTING_TEST_DEVICE_H_

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "compute/device/device.h"

namespace paramd {

// What the tests of primitives, layers and networks compute on: the library
// that a test is linked with decides. The same tests run on the processor, on
// the kernels of a GPU as loops, on an emulated accelerator, each time with
// other delays, and on a GPU, where there is one.
std::unique_ptr<Device> MakeTestDevice();

// Why there is none here; empty if there is one.
std::string WhyNoTestDevice();

// A test on it, which is skipped where there is none.
class OnTestDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why = WhyNoTestDevice();
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_TESTING_TEST_DEVICE_H_
