#ifndef PARAMD_INPUT_TESTING_MOCK_KAFKA_H_
#define PARAMD_INPUT_TESTING_MOCK_KAFKA_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

struct rd_kafka_s;
struct rd_kafka_mock_cluster_s;

namespace paramd {

// A Kafka of one broker with one topic, in this process: librdkafka's mock
// cluster, which others can read over loopback. A partition keeps its newest 5
// MB alone.
//
// Thread-safe.
class MockKafka {
 public:
  MockKafka(const std::string& topic, uint32_t partitions);
  ~MockKafka();
  MockKafka(const MockKafka&) = delete;
  MockKafka& operator=(const MockKafka&) = delete;

  // "127.0.0.1:40123".
  const std::string& brokers() const { return brokers_; }
  // Appends a message, whose offset is one above that of the last; Flush waits
  // until all are there.
  void Produce(uint32_t partition, absl::string_view message);
  // One with a key.
  void ProduceKeyed(uint32_t partition, absl::string_view key,
                    absl::string_view message);
  // One without a value.
  void ProduceTombstone(uint32_t partition, absl::string_view key);
  void Flush();
  // Nobody is answered until it is up again.
  void SetDown();
  void SetUp();

 private:
  void Send(uint32_t partition, const void* value, size_t value_bytes,
            absl::string_view key);

  const std::string topic_;
  rd_kafka_s* owner_ = nullptr;  // Of the cluster.
  rd_kafka_mock_cluster_s* cluster_ = nullptr;
  rd_kafka_s* producer_ = nullptr;
  std::string brokers_;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_TESTING_MOCK_KAFKA_H_
