package main

import (
	"fmt"
	"strings"
	"testing"
)

// Each job that one process at a time is to do is done under its lease. Red if one runs
// without: every process would run it.
func TestJobsRunUnderTheirLeases(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, backendEtcd)
	i.serve("--partitions", "2")
	leases := i.openHolder(backendEtcd)
	eventually(t, "every job is held", func() (bool, string) {
		held, err := leases.List(t.Context(), "job/")
		var names []string
		for _, l := range held {
			names = append(names, l.Name)
		}
		return strings.Join(names, " ") == "job/events job/expiry job/payments job/release job/sweep", fmt.Sprint(names, err)
	})
}
