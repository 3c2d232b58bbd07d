#include "net/operator_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

class OperatorSocketTest : public ::testing::Test {
 protected:
  OperatorSocketTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/socket-XXXXXX");
    directory_ = mkdtemp(name.data());
    path_ = absl::StrCat(directory_, "/worker-0.sock");
  }

  // Whether somebody accepts there.
  static bool CanConnect(const std::string& path) {
    const auto address = OperatorAddress::Of(path);
    if (!address.ok()) return false;
    absl::string_view name = (*address)->target();
    EXPECT_TRUE(absl::ConsumePrefix(&name, "unix:"));
    sockaddr_un to = {};
    to.sun_family = AF_UNIX;
    EXPECT_LT(name.size(), sizeof(to.sun_path));
    std::memcpy(to.sun_path, name.data(), name.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int connected =
        connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
    close(fd);
    return connected == 0;
  }
  bool Exists() const { return access(path_.c_str(), F_OK) == 0; }

  std::string directory_, path_;
};

TEST_F(OperatorSocketTest, OnlyItsOwnerMayConnect) {
  const auto socket = OperatorSocket::Bind(path_);
  ASSERT_TRUE(socket.ok()) << socket.status();
  struct stat there = {};
  ASSERT_EQ(stat(path_.c_str(), &there), 0);
  EXPECT_TRUE(S_ISSOCK(there.st_mode));
  EXPECT_EQ(there.st_mode & 07777, 0600u);
  EXPECT_TRUE(CanConnect(path_));
}

TEST_F(OperatorSocketTest, ItIsGoneWithItsProcess) {
  { ASSERT_TRUE(OperatorSocket::Bind(path_).ok()); }
  EXPECT_FALSE(Exists());
  EXPECT_EQ(rmdir(directory_.c_str()), 0) << "nothing else is left";
}

TEST_F(OperatorSocketTest, WhatADeadProcessLeftIsReplaced) {
  auto first = OperatorSocket::Bind(path_);
  ASSERT_TRUE(first.ok());
  const auto second = OperatorSocket::Bind(path_);
  ASSERT_TRUE(second.ok()) << second.status();
  first->reset();
  EXPECT_TRUE(Exists()) << "it is the second one's now";
  EXPECT_TRUE(CanConnect(path_));
}

TEST_F(OperatorSocketTest, AFileThatIsNoSocketIsLeftAlone) {
  std::fclose(std::fopen(path_.c_str(), "w"));
  EXPECT_EQ(OperatorSocket::Bind(path_).status().message(),
            absl::StrCat("cannot listen on the socket '", path_,
                         "': a file that is not a socket has that name"));
  EXPECT_TRUE(Exists());
}

TEST_F(OperatorSocketTest, ADirectoryThatIsNotThereIsNamed) {
  const std::string path = absl::StrCat(directory_, "/no/worker-0.sock");
  EXPECT_EQ(OperatorSocket::Bind(path).status(),
            absl::NotFoundError(
                absl::StrCat("there is no directory '", directory_, "/no'")));
  EXPECT_EQ(OperatorAddress::Of(path).status(),
            absl::NotFoundError(absl::StrCat(
                "there is no socket '", path,
                "': it is there while its process runs, on that machine")));
}

TEST_F(OperatorSocketTest, APathMayBeLongerThanASocketsName) {
  std::string directory = directory_;
  for (int i = 0; i < 5; ++i) {
    absl::StrAppend(&directory, "/", std::string(60, 'd'));
    ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  }
  const std::string path = absl::StrCat(directory, "/worker-0.sock");
  const auto socket = OperatorSocket::Bind(path);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_TRUE(CanConnect(path));
}

}  // namespace
}  // namespace paramd
