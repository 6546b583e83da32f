// Package e2e tests the gateway as a process with clients that others wrote: franz-go and
// sarama, kcat (librdkafka) and kafka-python. The last two are found on the machine; where
// they are not, their tests are skipped, unless CAIRN_E2E is "all".
package e2e
