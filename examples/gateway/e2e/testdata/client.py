"""Does one thing with kafka-python: reads a command in JSON, prints messages in JSON."""

import itertools
import json
import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

PATIENCE_MS = 30000


def encode(text):
    return None if text is None else text.encode()


def decode(data):
    return None if data is None else data.decode()


def produce(c):
    codec = None if c["codec"] == "none" else c["codec"]
    producer = KafkaProducer(bootstrap_servers=c["address"], api_version=(0, 10), compression_type=codec, linger_ms=50, acks="all")
    futures = [
        producer.send(c["topic"], partition=0, key=encode(m["key"]), value=encode(m["value"]), timestamp_ms=m["timestamp"])
        for m in c["messages"]
    ]
    producer.flush(PATIENCE_MS / 1000)
    for f in futures:
        f.get(0)
    producer.close()


def show(messages, n):
    shown = 0
    for m in itertools.islice(messages, n):
        print(json.dumps({
            "offset": m.offset, "timestamp": m.timestamp, "append_time": m.timestamp_type == 1,
            "key": decode(m.key), "value": decode(m.value),
        }))
        shown += 1
    if shown < n:
        sys.exit("%d of %d messages" % (shown, n))


def since(consumer, partition, time):
    """The offset for a time. kafka-python asks brokers from 0.10.1 on only, which is when
    ListOffsets 1 came; to those it would send a Fetch that is newer than we know."""
    for config in (consumer.config, consumer._fetcher.config):
        config["api_version"] = (0, 10, 1)
    offset = consumer.offsets_for_times({partition: time})[partition].offset
    for config in (consumer.config, consumer._fetcher.config):
        config["api_version"] = (0, 10)
    return offset


def consume(c):
    consumer = KafkaConsumer(bootstrap_servers=c["address"], api_version=(0, 10), consumer_timeout_ms=PATIENCE_MS)
    partition = TopicPartition(c["topic"], 0)
    consumer.assign([partition])
    consumer.seek(partition, since(consumer, partition, c["time"]) if c["time"] else c["offset"])
    show(consumer, c["n"])
    consumer.close()


def group(c):
    consumer = KafkaConsumer(
        c["topic"], bootstrap_servers=c["address"], api_version=(0, 10), consumer_timeout_ms=PATIENCE_MS,
        group_id=c["group"], auto_offset_reset="earliest", enable_auto_commit=False)
    show(consumer, c["n"])
    consumer.commit()
    consumer.close()


command = json.load(sys.stdin)
{"produce": produce, "consume": consume, "group": group}[command["do"]](command)
