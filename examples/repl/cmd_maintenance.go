package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "maintenance", group: retentionGroup, args: "[run]", maxArgs: 1, values: oneOf("run"),
		summary: "show the state of the maintenance loop, or run it now",
		details: `The loop looks about once a second for partitions whose alarm has rung; it rolls
idle segments and removes expired ones. The totals are what it did since the store
was opened, without what retain did. What fails is tried again after a minute.
maintenance run does what is due and shows what it was, without looking at other
partitions; retain --all compares before and after.`,
		examples: []string{"maintenance", "maintenance run", "maintenance --json"},
		run:      runMaintenance,
	})
}

func runMaintenance(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	switch a.word(0) {
	case "":
		status, err := db.Maintenance()
		if err != nil {
			return err
		}
		return s.show(a, append(s.maintenanceRecord(&status), maintainedRecord(&status.Total)...))
	case "run":
		done, err := db.MaintainOnce(ctx, s.now())
		return errors.Join(err, s.show(a, maintainedRecord(&done)))
	default:
		return usagef("%q is not run", a.word(0))
	}
}

func (s *session) maintenanceRecord(status *engine.MaintenanceStatus) record {
	var failing any
	if status.Err != nil {
		failing = strings.ReplaceAll(status.Err.Error(), "\n", "; ")
	}
	return record{
		{name: "last run", value: instant(status.LastRun)},
		{name: "next alarm", value: instant(status.Next)},
		{name: "error", value: failing},
	}
}

// instant is a time that may not be there.
func instant(t time.Time) codec.Timestamp {
	if t.IsZero() {
		return codec.NoTimestamp
	}
	return codec.TimestampOf(t)
}

func maintainedRecord(m *engine.Maintained) record {
	removed := &m.Removed
	return record{
		{name: "partitions due", value: m.Due},
		{name: "segments rolled", value: m.Rolled},
		{name: "segments removed", value: removed.Segments},
		{name: "by time", value: removed.ByTime},
		{name: "by size", value: removed.BySize},
		{name: "by log start", value: removed.ByLogStart},
		{name: "messages", value: removed.Messages},
		{name: "wire bytes", value: byteCount(removed.WireBytes)},
		{name: "stored bytes", value: byteCount(removed.StoredBytes)},
		{name: "disk bytes", value: byteCount(removed.DiskBytes)},
	}
}
