package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A window written on both sides of a change of the clocks (the same wall-clock time
// twice) is the same two instants whatever zone the process runs in; one without a zone
// is refused and not taken for some zone.
func TestCase31ZoneOfTheProcess(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	if code, _, stderr := i.run("migrate", "--yes"); code != exitDone {
		t.Fatal(stderr)
	}
	for _, zone := range []string{"America/New_York", "Asia/Shanghai", "UTC"} {
		here := *i
		here.env = append(append([]string{}, i.env...), "TZ="+zone)
		file := write(t, `
activity: autumn
starts_at: 2026-11-01T01:30:00.125-04:00
ends_at: 2026-11-01T01:30:00-05:00
skus: [{sku: s1, total: 1}]
`)
		code, stdout, stderr := here.run("activity", "apply", "-f", file, "--yes", "--output", "json")
		var a activityAdminView
		if err := json.Unmarshal([]byte(stdout), &a); err != nil || code != exitDone {
			t.Fatalf("apply under TZ=%s: %d %v %s", zone, code, err, stderr)
		}
		starts, ends := time.Date(2026, 11, 1, 5, 30, 0, 125e6, time.UTC), time.Date(2026, 11, 1, 6, 30, 0, 0, time.UTC)
		if !a.StartsAt.Equal(starts) || !a.EndsAt.Equal(ends) {
			t.Errorf("under TZ=%s the sale goes from %v to %v, want %v to %v", zone, a.StartsAt, a.EndsAt, starts, ends)
		}
		for _, written := range []string{"2026-11-01T01:30:00", "2026-11-01 01:30:00", "2026-11-01"} {
			file := write(t, "activity: winter\nstarts_at: "+written+"\nskus: [{sku: s1, total: 1}]\n")
			code, _, stderr := here.run("activity", "apply", "-f", file, "--yes")
			if code != exitUsage || !strings.Contains(stderr, "starts_at") {
				t.Errorf("%s under TZ=%s: %d %s", written, zone, code, stderr)
			}
		}
	}
}
