package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/admission"
)

// Of one lane one job runs at a time; it tells how far it is, and ends when it is
// cancelled or when the process does.
func TestJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		j := newJobs()
		var told atomic.Int64
		j.changed = func() { told.Add(1) }
		go j.run(ctx)
		long := func(ctx context.Context, j *jobs, one *job) (any, error) {
			for n := range uint64(1_000_000) {
				if j.progress(one, n, 1_000_000); ctx.Err() != nil {
					return "so far", context.Cause(ctx)
				}
				time.Sleep(time.Millisecond)
			}
			return "all", nil
		}
		first, err := j.begin(jobView{Kind: jobReplay, Actor: "ann"}, long)
		if err != nil || first.State != jobRunning {
			t.Fatalf("begun: %+v %v", first, err)
		}
		var busy *admission.Problem
		if _, err := j.begin(jobView{Kind: jobPlan}, long); !errors.As(err, &busy) || busy.Code != admission.CodeBusy || busy.Members["job"] != first.Job {
			t.Errorf("a second replay: %v", err)
		}
		other, err := j.begin(jobView{Kind: jobAudit}, long)
		if err != nil {
			t.Errorf("an audit beside a replay: %v", err)
		}
		time.Sleep(10 * time.Second)
		if n := told.Load(); n > 30 {
			t.Errorf("%d announcements in ten seconds of two jobs", n)
		}
		_, version := j.list(0)
		j.cancel(first.Job)
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		changed, _ := j.list(version)
		if len(changed) == 0 || changed[0].Job != first.Job || changed[0].State != jobCancelled || changed[0].Result != "so far" || changed[0].Read == 0 || changed[0].EndedAt == nil {
			t.Errorf("cancelled: %+v", changed)
		}
		if _, err := j.begin(jobView{Kind: jobReplay}, func(context.Context, *jobs, *job) (any, error) { return nil, errors.New("a\nb") }); err != nil {
			t.Errorf("a replay after the cancelled one: %v", err)
		}
		synctest.Wait()
		if newest := j.newest()[0]; newest.State != jobFailed || strings.Contains(newest.Error, "\n") {
			t.Errorf("failed: %+v", newest)
		}
		stop()
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		for _, view := range j.newest() {
			if view.Job == other.Job && view.State != jobFailed {
				t.Errorf("a job that the end of the process cuts off: %+v", view)
			}
		}
	})
}
