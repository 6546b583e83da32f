package main

import (
	"context"
	"strings"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "settings", group: topicGroup, args: "[WORD]", maxArgs: 1,
		summary:  "list the settings of topics: default, range, meaning",
		details:  "WORD keeps the settings with it in their name or meaning.",
		options:  []option{fullOption},
		examples: []string{"settings", "settings segment", "settings timestamp --full"},
		run:      runSettings,
	})
	register(command{
		name: "describe", group: topicGroup, args: "[TOPIC]", maxArgs: 1, values: topicNames,
		summary:  "show every setting of a topic and where its value comes from",
		options:  []option{fullOption},
		examples: []string{"describe", "describe orders"},
		run:      runDescribe,
	})
}

// fullOption shows what a table leaves out.
var fullOption = option{name: "full", doc: "show every column, and values whole on a terminal"}

func runSettings(_ context.Context, s *session, a *arguments) error {
	out := s.records(a)
	defer out.close()
	for _, setting := range engine.Settings() {
		if setting.Name == "" || !strings.Contains(strings.ToLower(setting.Name+setting.Alias+setting.Doc), strings.ToLower(a.word(0))) {
			continue
		}
		err := out.print(record{
			{name: "setting", value: setting.Name},
			{name: "default", value: setting.Default},
			{name: "valid", value: setting.Valid, detail: true},
			{name: "alias", value: setting.Alias, detail: true},
			{name: "broker names", value: setting.Broker, detail: true},
			{name: "meaning", value: setting.Doc},
		})
		if err != nil {
			return err
		}
	}
	if out.total == 0 {
		s.say(a, "no setting has %q in it", a.word(0))
	}
	return nil
}

func runDescribe(_ context.Context, s *session, a *arguments) error {
	t, err := s.describedTopic(a)
	if err != nil {
		return err
	}
	own, store := t.Config().Settings(), s.opts.Defaults.Settings()
	out := s.records(a)
	defer out.close()
	for _, setting := range engine.Settings() {
		if setting.Name == "" {
			continue
		}
		value, from := setting.Default, "Kafka"
		if v, ok := own[setting.Name]; ok {
			value, from = v, "topic"
		} else if v, ok := store[setting.Name]; ok {
			value, from = v, "store"
		}
		err := out.print(record{
			{name: "setting", value: setting.Name},
			{name: "value", value: value},
			{name: "from", value: from},
			{name: "meaning", value: setting.Doc},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) describedTopic(a *arguments) (*engine.Topic, error) {
	if len(a.words) == 1 {
		return s.topic(a.word(0))
	}
	if s.current == nil {
		return nil, errNoTopic
	}
	return s.topic(s.current.Topic())
}
