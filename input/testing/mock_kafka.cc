#include "input/testing/mock_kafka.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "base/check.h"

namespace paramd {
namespace {

constexpr int kBroker = 1;
constexpr int kFlushMs = 60000;

}  // namespace

// One client owns the cluster, another one writes to it.
MockKafka::MockKafka(const std::string& topic, uint32_t partitions)
    : topic_(topic) {
  char why[512];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "client.id", "mock", why, sizeof(why));
  owner_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
  CHECK(owner_ != nullptr, why);
  cluster_ = rd_kafka_mock_cluster_new(owner_, /*broker_cnt=*/1);
  CHECK(cluster_ != nullptr, "librdkafka has a mock cluster");
  brokers_ = rd_kafka_mock_cluster_bootstraps(cluster_);
  CHECK(rd_kafka_mock_topic_create(cluster_, topic.c_str(),
                                   static_cast<int>(partitions),
                                   1) == RD_KAFKA_RESP_ERR_NO_ERROR,
        "the mock cluster takes the topic");
  conf = rd_kafka_conf_new();
  CHECK(rd_kafka_conf_set(conf, "bootstrap.servers", brokers_.c_str(), why,
                          sizeof(why)) == RD_KAFKA_CONF_OK &&
            rd_kafka_conf_set(conf, "linger.ms", "20", why, sizeof(why)) ==
                RD_KAFKA_CONF_OK &&
            rd_kafka_conf_set(conf, "max.in.flight", "1", why, sizeof(why)) ==
                RD_KAFKA_CONF_OK,
        why);
  producer_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
  CHECK(producer_ != nullptr, why);
}

MockKafka::~MockKafka() {
  rd_kafka_destroy(producer_);
  rd_kafka_mock_cluster_destroy(cluster_);
  rd_kafka_destroy(owner_);
}

void MockKafka::Produce(uint32_t partition, absl::string_view message) {
  Send(partition, message.data(), message.size(), "");
}

void MockKafka::ProduceKeyed(uint32_t partition, absl::string_view key,
                             absl::string_view message) {
  Send(partition, message.data(), message.size(), key);
}

void MockKafka::ProduceTombstone(uint32_t partition, absl::string_view key) {
  Send(partition, nullptr, 0, key);
}

void MockKafka::Send(uint32_t partition, const void* value, size_t value_bytes,
                     absl::string_view key) {
  for (;;) {
    const rd_kafka_resp_err_t error = rd_kafka_producev(
        producer_, RD_KAFKA_V_TOPIC(topic_.c_str()),
        RD_KAFKA_V_PARTITION(static_cast<int32_t>(partition)),
        RD_KAFKA_V_VALUE(const_cast<void*>(value), value_bytes),
        RD_KAFKA_V_KEY(key.data(), key.size()),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) break;
    CHECK(error == RD_KAFKA_RESP_ERR__QUEUE_FULL, rd_kafka_err2str(error));
    rd_kafka_poll(producer_, 10);
  }
  rd_kafka_poll(producer_, 0);
}

void MockKafka::Flush() {
  CHECK(rd_kafka_flush(producer_, kFlushMs) == RD_KAFKA_RESP_ERR_NO_ERROR,
        "the mock cluster takes what is produced");
}

void MockKafka::SetDown() { rd_kafka_mock_broker_set_down(cluster_, kBroker); }

void MockKafka::SetUp() { rd_kafka_mock_broker_set_up(cluster_, kBroker); }

}  // namespace paramd
