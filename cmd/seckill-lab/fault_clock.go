package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"seckill/deploy/stack"
)

// clockScenarios step the wall clock of one process, and back. The machine's own clock is everybody's and stays as
// it is. Monotonic clocks do not step, on a real machine neither.
var clockScenarios = func() (list []scenario) {
	for _, target := range []string{api, worker, stack.Redis, stack.NATS, stack.Etcd, stack.Postgres} {
		list = append(list,
			scenario{name: "clock-ahead-" + target, workers: 2, fault: func() fault { return stepped(target, time.Hour) }},
			scenario{name: "clock-behind-" + target, workers: 2, fault: func() fault { return stepped(target, -clockBehind) }})
	}
	return list
}()

// clockBehind is less than the age of a sale, which has to be open by every clock.
const clockBehind = 45 * time.Second

// stepped sets the clock of a process by so much, and right again after a while, which is a step back.
func stepped(target string, by time.Duration) fault {
	var undo func() error
	return fault{
		about: fmt.Sprintf("the clock of %s steps by %v and, %v later, back", target, by, longPause), lasts: longPause,
		strike: func(ctx context.Context, f *field) (_ string, err error) {
			if undo, err = stepClock(f.pid(target), by); err != nil {
				return "", fmt.Errorf("step the clock of %s: %w", target, err)
			}
			ahead, err := f.clockOf(ctx, target)
			if err != nil {
				return "", err
			}
			if off := ahead - by; off.Abs() > 5*time.Second {
				return "", fmt.Errorf("the step is not proven: %s is %v ahead of this process, not %v", target, ahead, by)
			}
			return fmt.Sprintf("%s tells a time %v from ours", target, ahead.Round(time.Second)), nil
		},
		heal: func(ctx context.Context, f *field) (string, error) {
			if err := undo(); err != nil {
				return "", fmt.Errorf("set the clock of %s right: %w", target, err)
			}
			ahead, err := f.clockOf(ctx, target)
			if err == nil && ahead.Abs() > 5*time.Second {
				err = fmt.Errorf("%s is still %v ahead", target, ahead)
			}
			return "", err
		},
	}
}

// clockOf asks a process for its time and returns how far it is ahead of ours.
func (f *field) clockOf(ctx context.Context, target string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	var told time.Time
	var err error
	switch target {
	case stack.Redis:
		client := f.redis()
		defer client.Close()
		told, err = client.Time(ctx).Result()
	case stack.Postgres: // a new session, since those that are there were set before
		db, connectErr := f.ledger(ctx)
		if connectErr != nil {
			return 0, connectErr
		}
		defer db.Close(context.WithoutCancel(ctx))
		err = db.QueryRow(ctx, "select clock_timestamp()").Scan(&told)
	case stack.NATS:
		told, err = dateOf(ctx, f.servers.NATSMonitorURL()+"/healthz")
	case stack.Etcd:
		told, err = dateOf(ctx, "http://"+f.servers.EtcdEndpoint()+"/version")
	default:
		told, err = dateOf(ctx, "http://"+f.nodes[target].running.admin+"/healthz")
	}
	if err != nil {
		return 0, fmt.Errorf("ask %s for the time: %w", target, err)
	}
	return time.Until(told), nil
}

// dateOf is the time at which an HTTP server says it answered.
func dateOf(ctx context.Context, url string) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return time.Time{}, err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	_ = answer.Body.Close()
	date := answer.Header.Get("Date")
	if date == "" {
		return time.Time{}, errors.New("its answer has no Date")
	}
	return http.ParseTime(date)
}
