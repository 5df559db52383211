package migration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/migration"
)

func TestMonitor(t *testing.T) {
	const second = time.Second
	type look struct {
		at                   time.Duration
		processed, remaining int64
		none                 bool
		abort                string
		pause                bool
	}
	for name, c := range map[string]struct {
		limits migration.Limits
		looks  []look
	}{
		"without limits it may take long": {looks: []look{{at: 0, remaining: 10},
			{at: 20 * second, processed: 1, remaining: 10}, {at: 40 * second, processed: 2, remaining: 12}}},
		"nothing is copied": {looks: []look{{at: 0, remaining: 10}, {at: 20 * second, processed: 5, remaining: 5},
			{at: 50 * second, processed: 5, remaining: 5},
			{at: 51 * second, processed: 5, remaining: 5, abort: "stalled: nothing was copied for 30s"}}},
		"no more samples": {looks: []look{{at: 0, remaining: 10}, {at: 30 * second, none: true},
			{at: 31 * second, none: true, abort: "stalled: nothing was copied for 30s"}}},
		"being prepared is not stalling": {looks: []look{{at: 59 * second, none: true}, {at: 60 * second},
			{at: 61 * second}}},
		"its preparation never ends": {looks: []look{{at: 60 * second, none: true},
			{at: 61 * second, none: true, abort: "no data was copied within 1m0s of its beginning"}}},
		"it does not end in time": {limits: migration.Limits{Completion: 10 * second}, looks: []look{
			{at: 9 * second, processed: 9, remaining: 9}, {at: 10 * second, processed: 10, remaining: 8},
			{at: 11 * second, processed: 11, remaining: 7, abort: "not completed within 10s"}}},
		"not even its preparation ends in time": {limits: migration.Limits{Completion: 10 * second}, looks: []look{
			{at: 11 * second, none: true, abort: "not completed within 10s"}}},
		"the guest is paused, once, and it has as long again": {
			limits: migration.Limits{Completion: 10 * second, Disruption: true}, looks: []look{
				{at: 1 * second, processed: 1, remaining: 9},
				{at: 11 * second, processed: 2, remaining: 8, pause: true},
				{at: 20 * second, processed: 3, remaining: 7},
				{at: 21 * second, processed: 4, remaining: 6, abort: "not completed within 20s"}}},
		"it comes no nearer": {limits: migration.Limits{Progress: 5 * second}, looks: []look{
			{at: 0, processed: 1, remaining: 9}, {at: 5 * second, processed: 2, remaining: 9},
			{at: 6 * second, processed: 3, remaining: 10, abort: "no progress for 5s"}}},
		"nearer than at the look before will do": {limits: migration.Limits{Progress: 5 * second}, looks: []look{
			{at: 0, processed: 1, remaining: 2}, {at: 4 * second, processed: 2, remaining: 9},
			{at: 5 * second, processed: 3, remaining: 8}, {at: 10 * second, processed: 4, remaining: 8}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := migration.Monitor{Limits: c.limits}
			for _, l := range c.looks {
				d := m.Look(l.at, guest.Copying{Processed: l.processed, Remaining: l.remaining}, !l.none)
				require.Equal(t, migration.Decision{Abort: l.abort, Pause: l.pause}, d, "after %s", l.at)
			}
		})
	}
}
