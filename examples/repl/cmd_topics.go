package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "topics", group: topicGroup,
		summary: "list the topics with the settings they were given",
		run:     runTopics,
	})
	register(command{
		name: "create", group: topicGroup, args: "TOPIC", minArgs: 1, maxArgs: 1, settings: true,
		summary: "create a topic and use it",
		details: "Settings have Kafka's names; the command settings lists them.",
		options: []option{{name: "if-missing", doc: "use a topic that exists as it is"}},
		examples: []string{
			"create orders",
			"create orders num.partitions=4 segment.bytes=1048576 retention.ms=-1",
			"create audit message.timestamp.type=LogAppendTime --if-missing",
		},
		run: runCreate,
	})
	register(command{
		name: "alter", group: topicGroup, args: "TOPIC", minArgs: 1, maxArgs: 1, settings: true, values: topicNames,
		summary:  "change settings of a topic; the others stay",
		details:  "An empty value takes a setting back to its default.",
		examples: []string{"alter orders segment.ms=3600000 compression.type=lz4", "alter orders segment.ms="},
		run:      runAlter,
	})
	register(command{
		name: "use", group: topicGroup, args: "TOPIC[/N]", minArgs: 1, maxArgs: 1, noData: true, values: topicNames,
		summary:  "choose the partition that commands work on; 0 without a number",
		examples: []string{"use orders", "use orders/3"},
		run:      runUse,
	})
}

func runTopics(_ context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for _, t := range db.Topics() {
		if err := out.print(topicRecord(t)); err != nil {
			return err
		}
	}
	if out.total == 0 {
		s.say(a, "no topics")
	}
	return nil
}

func topicRecord(t *engine.Topic) record {
	return record{
		{name: "topic", value: t.Name()},
		{name: "partitions", value: t.Partitions()},
		{name: "settings", value: settingsText(t.Config().Settings())},
	}
}

// settingsText lists settings as create takes them.
func settingsText(settings map[string]string) string {
	words := make([]string, 0, len(settings))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		words = append(words, name+"="+settings[name])
	}
	return strings.Join(words, " ")
}

func runCreate(_ context.Context, s *session, a *arguments) error {
	config, err := engine.ParseTopicConfig(a.settings)
	if err != nil {
		return err
	}
	db, err := s.store()
	if err != nil {
		return err
	}
	create := db.CreateTopic
	if a.has("if-missing") {
		create = db.EnsureTopic
	}
	t, err := create(a.word(0), config)
	if err != nil {
		return err
	}
	s.current = t.Partition(0)
	return s.show(a, topicRecord(t))
}

func runAlter(_ context.Context, s *session, a *arguments) error {
	if len(a.settings) == 0 {
		return usagef("no setting is given")
	}
	t, err := s.topic(a.word(0))
	if err != nil {
		return err
	}
	settings := t.Config().Settings()
	for name, value := range a.settings {
		name = settingName(name)
		if value != "" {
			settings[name] = value
		} else if !isSetting(name) {
			return fmt.Errorf("%s is not a topic setting", name)
		} else {
			delete(settings, name)
		}
	}
	config, err := engine.ParseTopicConfig(settings)
	if err != nil {
		return err
	}
	if err := s.db.AlterTopic(t.Name(), config); err != nil {
		return err
	}
	return s.show(a, topicRecord(t))
}

// settingName returns the first name of a setting that has two.
func settingName(name string) string {
	for _, setting := range engine.Settings() {
		if setting.Alias == name && name != "" {
			return setting.Name
		}
	}
	return name
}

func isSetting(name string) bool {
	return slices.ContainsFunc(engine.Settings(), func(s engine.Setting) bool { return s.Name == name && name != "" })
}

func runUse(_ context.Context, s *session, a *arguments) error {
	p, err := s.findPartition(a.word(0))
	if err != nil {
		return err
	}
	if _, err := p.Offsets(); err != nil && !errors.Is(err, engine.ErrFailed) {
		return err
	}
	s.current = p
	return nil
}
