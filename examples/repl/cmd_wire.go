package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "fetch", group: wireGroup, args: "[OFFSET]", maxArgs: 1,
		summary: "fetch a message set in Kafka's wire format and show its bytes",
		details: `The first frame is returned whole, however small max is: max=1 fetches one frame.
The set is kept as hex in $SET. OFFSET is a number, earliest (the default) or
latest.`,
		options: []option{
			{name: "max", value: "BYTES", doc: "size of the set; 1024 if not given"},
			{name: "format", value: "v0|v1", doc: "newest message format to return; v1 if not given", values: oneOf("v0", "v1")},
			{name: "hard", doc: "cut the set at max even inside a frame, as old Kafka did"},
			{name: "fields", doc: "show each field of each frame with its bytes"},
			{name: "raw", doc: "print nothing but the hex digits"},
			topicOption,
		},
		examples: []string{"fetch 1000 max=1 --fields", "fetch max=4096", "fetch 0 max=1 format=v0 --raw"},
		run:      runFetch,
	})
	register(command{
		name: "produce", group: wireGroup, args: "HEX...", maxArgs: -1,
		summary: "append a message set in Kafka's wire format",
		details: "Spaces between the hex digits do not matter. $SET is the set fetched last.",
		options: []option{
			{name: "file", value: "FILE", doc: "a file with the bytes of the set, in place of HEX", values: fileNames},
			topicOption,
		},
		examples: []string{
			"produce 0000000000000000 00000018 9bf214c3 01 00 00000198d0c1a000 ffffffff 00000002 6869",
			"produce $SET",
		},
		run: runProduce,
	})
}

// defaultFetch is a set that fits the screen.
const defaultFetch = 1024

func runFetch(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	from, err := offsetWord(p, a.word(0))
	if err != nil {
		return err
	}
	opts, err := fetchOptions(a)
	if err != nil {
		return err
	}
	res, err := p.Fetch(ctx, from, opts)
	if err != nil {
		return err
	}
	s.vars["SET"] = hex.EncodeToString(res.Set)
	return s.showFetch(a, res)
}

func fetchOptions(a *arguments) (engine.FetchOptions, error) {
	limit, err := a.number("max", defaultFetch)
	if err != nil {
		return engine.FetchOptions{}, err
	}
	if limit < 1 {
		return engine.FetchOptions{}, usagef("max %d must be at least 1", limit)
	}
	o := engine.FetchOptions{MaxBytes: int(limit), HardLimit: a.has("hard")}
	switch format := a.text("format", "v1"); format {
	case "v0":
		o.Format = engine.FormatV0
	case "v1":
		o.Format = engine.FormatV1
	default:
		return o, usagef("format %q is not v0 or v1", format)
	}
	return o, nil
}

func (s *session) showFetch(a *arguments, res engine.FetchResult) error {
	summary := record{
		{name: "bytes", value: len(res.Set)},
		{name: "next offset", value: res.Next},
		{name: "log start", value: res.LogStart},
		{name: "high watermark", value: res.HighWatermark},
	}
	switch {
	case a.has("json"):
		return s.show(a, append(summary, field{name: "set", value: s.vars["SET"]}))
	case a.has("raw"):
		fmt.Fprintln(s.out, s.vars["SET"])
		return nil
	}
	if err := s.show(a, summary); err != nil {
		return err
	}
	if a.has("fields") {
		return writeFields(s.out, res.Set)
	}
	if err := s.printFrames(res.Set); err != nil {
		return err
	}
	_, err := s.out.WriteString(hex.Dump(res.Set))
	return err
}

func runProduce(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	set, err := setBytes(a)
	if err != nil {
		return err
	}
	receipt, err := p.Produce(ctx, set)
	if err != nil {
		return err
	}
	s.remember(receipt.Offset)
	return s.show(a, receiptRecord(receipt))
}

// setBytes returns the set that produce was given, by its digits or in a file.
func setBytes(a *arguments) ([]byte, error) {
	if a.has("file") == (len(a.words) > 0) {
		return nil, usagef("give the set as hex digits or with file=")
	}
	if a.has("file") {
		return os.ReadFile(a.text("file", ""))
	}
	var digits strings.Builder
	for _, w := range a.words {
		digits.WriteString(strings.Join(strings.Fields(w.text), ""))
	}
	set, err := hex.DecodeString(digits.String())
	if err != nil {
		return nil, usagef("%v", err)
	}
	return set, nil
}
