package engine

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
)

// ParseTopicConfig reads topic settings by their Kafka names, and
// max.message.time.difference.ms by its name in KIP-32. Space around a value is
// ignored. The error joins a *ConfigError for every setting that is unknown or
// has a bad value.
func ParseTopicConfig(values map[string]string) (TopicConfig, error) {
	p := configParser{values: values, known: make(map[string]bool)}
	for i := range settingTable {
		s := &settingTable[i]
		p.topicValue(s, s.Name)
		if s.Alias != "" {
			p.topicValue(s, s.Alias)
		}
	}
	return p.finish("is not a topic setting")
}

// ParseBrokerConfig reads the defaults of all topics by their broker-level Kafka
// names, for Options.Defaults. Names in milliseconds win over minutes, minutes
// over hours. The error joins a *ConfigError for every setting that is unknown,
// belongs to the store as a whole or has a bad value.
func ParseBrokerConfig(values map[string]string) (TopicConfig, error) {
	p := configParser{values: values, known: make(map[string]bool)}
	for i := range settingTable {
		// The last to be stored wins, so the first of the names goes last.
		for _, name := range slices.Backward(settingTable[i].brokers) {
			p.brokerValue(&settingTable[i], name)
		}
	}
	for _, s := range storeSettings {
		p.known[s.Broker] = true
		if v, ok := values[s.Broker]; ok {
			p.fail(s.Broker, v, "belongs to the store, not to its topics: see Options")
		}
	}
	return p.finish("is not a log setting")
}

// configParser collects a TopicConfig and everything wrong with its settings.
type configParser struct {
	values map[string]string
	known  map[string]bool
	config TopicConfig
	errs   []error
}

func (p *configParser) fail(name, value, reason string) {
	p.errs = append(p.errs, &ConfigError{name, value, reason})
}

// topicValue stores the setting of that name, if given. Two names of one setting
// may both be given if they agree.
func (p *configParser) topicValue(s *settingRow, name string) {
	p.known[name] = true
	raw, ok := p.values[name]
	if !ok {
		return
	}
	before := s.format(p.config)
	if reason := s.parse(&p.config, strings.TrimSpace(raw)); reason != "" {
		p.fail(name, raw, reason)
		return
	}
	if before != "" && before != s.format(p.config) {
		p.fail(name, raw, "contradicts "+s.Name+" ("+before+")")
	}
}

// brokerValue stores the setting of that broker-level name, if given.
func (p *configParser) brokerValue(s *settingRow, b brokerName) {
	p.known[b.name] = true
	raw, ok := p.values[b.name]
	if !ok {
		return
	}
	text, reason := b.toTopic(strings.TrimSpace(raw))
	if reason == "" {
		reason = s.parse(&p.config, text)
	}
	if reason != "" {
		p.fail(b.name, raw, reason)
	}
}

// toTopic turns a broker-level value into a topic-level one.
func (b brokerName) toTopic(text string) (string, string) {
	if b.unit == 0 && b.min == 0 {
		return text, ""
	}
	n, reason := parseInt(text)
	switch {
	case reason != "":
		return "", reason
	case b.unlimited && n == -1:
		return "-1", ""
	case n < b.min && b.unlimited:
		return "", "must be -1 or at least " + formatInt(b.min)
	case n < b.min:
		return "", "must be at least " + formatInt(b.min)
	case b.unit > 1 && n > math.MaxInt64/b.unit:
		return formatInt(math.MaxInt64), ""
	default:
		return formatInt(n * max(1, b.unit)), ""
	}
}

// finish reports names that no setting has, and settings that contradict each
// other. What is not given may come from the store's defaults: it contradicts
// nothing yet.
func (p *configParser) finish(unknown string) (TopicConfig, error) {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !p.known[name] {
			p.fail(name, p.values[name], unknown)
		}
	}
	segmentMs := int64(math.MaxInt64)
	if p.config.SegmentAge != 0 {
		segmentMs = kafkaMillis(p.config.SegmentAge)
	}
	errs := append(p.errs, p.config.conflicts(segmentMs)...)
	if len(errs) > 0 {
		return TopicConfig{}, errors.Join(errs...)
	}
	return p.config, nil
}

// Settings returns the settings that c sets by their Kafka names, in the form
// that [ParseTopicConfig] reads. Parsing them gives c again, with durations
// rounded to milliseconds and one form of "unlimited".
func (c TopicConfig) Settings() map[string]string {
	values := make(map[string]string)
	for i := range settingTable {
		if v := settingTable[i].format(c); v != "" {
			values[settingTable[i].Name] = v
		}
	}
	return values
}
