// A Kafka for tests of real processes: librdkafka's mock cluster. It prints the
// address of its broker, and then does what is written to it, line by line:
//
//   P TEXT       appends the message TEXT to partition P
//   P:KEY TEXT   the same with a key
//   flush        all messages are there; printed again when they are
//   down         nobody is answered until
//   up
//
//     mock_kafka TOPIC PARTITIONS
#include "input/testing/mock_kafka.h"

#include <cstdio>
#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

int main(int argc, char** argv) {
  uint32_t partitions = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &partitions)) {
    std::fprintf(stderr, "usage: mock_kafka TOPIC PARTITIONS\n");
    return 2;
  }
  paramd::MockKafka kafka(argv[1], partitions);
  std::printf("%s\n", kafka.brokers().c_str());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const size_t space = line.find(' ');
    const std::pair<absl::string_view, absl::string_view> where =
        absl::StrSplit(absl::string_view(line).substr(0, space),
                       absl::MaxSplits(':', 1));
    uint32_t partition = 0;
    if (line == "flush") {
      kafka.Flush();
      std::printf("flush\n");
      std::fflush(stdout);
    } else if (line == "down") {
      kafka.SetDown();
    } else if (line == "up") {
      kafka.SetUp();
    } else if (space != std::string::npos &&
               absl::SimpleAtoi(where.first, &partition) &&
               partition < partitions) {
      kafka.ProduceKeyed(partition, where.second,
                         absl::string_view(line).substr(space + 1));
    } else {
      std::fprintf(stderr, "not understood: %s\n", line.c_str());
      return 2;
    }
  }
  return 0;
}
